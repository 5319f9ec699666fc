"""What the journal says of a statement."""

from schema.migrate.journal import shown


def test_a_long_statement_is_cut_in_ascii() -> None:
    """It is stored in the database, whose encoding may lack an ellipsis."""
    said = shown("SELECT 1 -- one\n" + ", 1" * 99)
    assert (said[:12], said[-3:], len(said), said.isascii()) == ("SELECT 1 , 1", "...", 100, True)
