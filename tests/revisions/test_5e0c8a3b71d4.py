from tests.support.history import Database

FK = "fk_kernels_kernel_group_id_kernel_groups"
DEFINITION = "FOREIGN KEY (kernel_group_id) REFERENCES kernel_groups(id) ON DELETE RESTRICT"


def test_validate_kernels_kernel_group_id(database: Database) -> None:
    database.upgrade("92b7e4d10f6a")
    database.seed(2)
    before = database.catalog()
    database.upgrade("5e0c8a3b71d4")
    assert database.constraint(FK) == (DEFINITION, True)
    database.downgrade("92b7e4d10f6a")
    assert database.constraint(FK) == (f"{DEFINITION} NOT VALID", False)
    assert database.catalog() == before
    assert database.value("SELECT count(*) FROM kernels") == 4
