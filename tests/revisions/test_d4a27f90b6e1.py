from tests.support.history import Database

INDEXES = {
    "ix_kernels_running_scaling_group": "public.kernels USING btree (scaling_group) "
    "WHERE ((status)::text = 'RUNNING'::text)",
    "ix_kernels_terminated_scaling_group": "public.kernels USING btree (scaling_group) "
    "WHERE ((status)::text = 'TERMINATED'::text)",
    "ix_kernels_updated_order": "public.kernels USING btree (GREATEST(created_at, terminated_at, status_changed))",
}


def test_kernels_partial_indexes(database: Database) -> None:
    database.upgrade("8c1f0a5e2d73")
    database.seed()
    database.upgrade("d4a27f90b6e1")
    assert {name: database.index(name) for name in INDEXES} == {name: (text, True) for name, text in INDEXES.items()}
    database.downgrade("-1")
    assert {name: database.index(name) for name in INDEXES} == dict.fromkeys(INDEXES)
    assert database.value("SELECT count(*) FROM kernels") == 4


def test_runs_again_after_a_failure_in_its_middle(database: Database) -> None:
    database.upgrade("8c1f0a5e2d73")
    database.run("CREATE INDEX ix_kernels_running_scaling_group ON kernels (scaling_group) WHERE status = 'RUNNING'")
    database.upgrade("d4a27f90b6e1")
    assert {name: database.index(name) for name in INDEXES} == {name: (text, True) for name, text in INDEXES.items()}
