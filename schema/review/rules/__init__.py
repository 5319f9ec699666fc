"""The rules, one file each. A new one is written beside these and added to the list in one line."""

from schema.review.finding import Rule
from schema.review.rules import (
    check_validated,
    column_rewrite,
    concurrently_in_transaction,
    constraint_index_blocking,
    exclude_constraint,
    foreign_key_dropped,
    foreign_key_locks_referenced,
    foreign_key_validated,
    index_blocking,
    index_drop_blocking,
    invalid_index,
    left_not_valid,
    maintenance_blocking,
    not_null_refused,
    primary_key_scan,
    set_not_null_scan,
    type_change_check,
    type_change_rewrite,
    unused_acceptance,
    validate_while_locked,
)

UNUSED_ACCEPTANCE = unused_acceptance.RULE

RULES: tuple[Rule, ...] = (
    index_blocking.RULE,
    index_drop_blocking.RULE,
    maintenance_blocking.RULE,
    concurrently_in_transaction.RULE,
    invalid_index.RULE,
    constraint_index_blocking.RULE,
    primary_key_scan.RULE,
    exclude_constraint.RULE,
    check_validated.RULE,
    foreign_key_validated.RULE,
    foreign_key_locks_referenced.RULE,
    validate_while_locked.RULE,
    left_not_valid.RULE,
    foreign_key_dropped.RULE,
    set_not_null_scan.RULE,
    not_null_refused.RULE,
    column_rewrite.RULE,
    type_change_rewrite.RULE,
    type_change_check.RULE,
    UNUSED_ACCEPTANCE,
)
