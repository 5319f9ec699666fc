"""One comparator per kind of object, registered here in one line."""

from schema.drift.comparators.base import Comparator
from schema.drift.comparators.columns import ColumnComparator
from schema.drift.comparators.constraints import ConstraintComparator
from schema.drift.comparators.database import DatabaseComparator, SettingComparator
from schema.drift.comparators.extensions import ExtensionComparator
from schema.drift.comparators.foreign import ForeignComparator
from schema.drift.comparators.functions import FunctionComparator
from schema.drift.comparators.indexes import IndexComparator
from schema.drift.comparators.others import OtherComparator
from schema.drift.comparators.policies import PolicyComparator
from schema.drift.comparators.privileges import DefaultPrivilegesComparator
from schema.drift.comparators.schemas import SchemaComparator
from schema.drift.comparators.sequences import SequenceComparator
from schema.drift.comparators.statistics import StatisticsComparator
from schema.drift.comparators.tables import TableComparator
from schema.drift.comparators.triggers import TriggerComparator
from schema.drift.comparators.types import DomainComparator, EnumComparator, TypeComparator
from schema.drift.comparators.views import RuleComparator, ViewComparator
from schema.pg.catalog import Kind

_COMPARATORS: tuple[Comparator, ...] = (
    DatabaseComparator(),
    SettingComparator(),
    SchemaComparator(),
    ExtensionComparator(),
    ForeignComparator(),
    EnumComparator(),
    DomainComparator(),
    TypeComparator(),
    SequenceComparator(),
    FunctionComparator(),
    TableComparator(),
    ColumnComparator(),
    ConstraintComparator(),
    ViewComparator(),
    IndexComparator(),
    StatisticsComparator(),
    RuleComparator(),
    TriggerComparator(),
    PolicyComparator(),
    DefaultPrivilegesComparator(),
    OtherComparator(),
)

_BY_KIND = {kind: each for each in _COMPARATORS for kind in each.kinds}


def comparator(kind: Kind) -> Comparator:
    """The comparator of a kind."""
    return _BY_KIND[kind]
