"""The errors that a call may raise, one class for each gRPC status; `reason` distinguishes the cases of one status."""

from chassis.errors import Aborted as Aborted
from chassis.errors import AlreadyExists as AlreadyExists
from chassis.errors import BadSetting as BadSetting
from chassis.errors import DataLoss as DataLoss
from chassis.errors import DeadlineExceeded as DeadlineExceeded
from chassis.errors import FailedPrecondition as FailedPrecondition
from chassis.errors import HanseiError as HanseiError
from chassis.errors import Internal as Internal
from chassis.errors import InvalidArgument as InvalidArgument
from chassis.errors import NotFound as NotFound
from chassis.errors import OutOfRange as OutOfRange
from chassis.errors import PermissionDenied as PermissionDenied
from chassis.errors import ResourceExhausted as ResourceExhausted
from chassis.errors import Unauthenticated as Unauthenticated
from chassis.errors import Unavailable as Unavailable
from chassis.errors import Unimplemented as Unimplemented
from chassis.errors import Violation as Violation
