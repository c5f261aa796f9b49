package wire

// SQLSTATEs that pgweir answers with or decides on. The first two characters
// are the class, which drivers often look at alone.
const (
	// CodeSuccessful: no error; the end of a session that was asked for.
	CodeSuccessful = "00000"

	// CodeConnectionException: the connection is of no use, for no better reason.
	CodeConnectionException = "08000"
	// CodeCannotConnect: the client side could not reach the server.
	CodeCannotConnect = "08001"
	// CodeConnectionRejected: the server refused to take the connection.
	CodeConnectionRejected = "08004"
	// CodeConnectionFailure: a server was lost while it worked for the client.
	CodeConnectionFailure = "08006"
	// CodeResolutionUnknown: lost while committing; nobody knows the outcome.
	CodeResolutionUnknown = "08007"
	// CodeProtocolViolation: the peer sent what the protocol does not allow.
	CodeProtocolViolation = "08P01"

	// CodeFeatureNotSupported: understood, but not offered.
	CodeFeatureNotSupported = "0A000"

	// CodeInvalidParameterValue: a setting got a value outside its range.
	CodeInvalidParameterValue = "22023"

	// CodeActiveTransaction: not possible inside a transaction block.
	CodeActiveTransaction = "25001"
	// CodeReadOnlyTransaction: a write in a read-only transaction or on a standby.
	CodeReadOnlyTransaction = "25006"
	// CodeNoActiveTransaction: possible only inside a transaction block.
	CodeNoActiveTransaction = "25P01"
	// CodeInFailedTransaction: the transaction has failed; only its end is accepted.
	CodeInFailedTransaction = "25P02"
	// CodeIdleInTransactionTimeout: ended after idling inside a transaction.
	CodeIdleInTransactionTimeout = "25P03"
	// CodeTransactionTimeout: ended because a transaction took too long.
	CodeTransactionTimeout = "25P04"

	// CodeInvalidStatementName: no prepared statement of that name.
	CodeInvalidStatementName = "26000"

	// CodeInvalidAuthorization: this role may not come in this way.
	CodeInvalidAuthorization = "28000"
	// CodeInvalidPassword: wrong password, or no such role, which look alike.
	CodeInvalidPassword = "28P01"

	// CodeInvalidCatalogName: no such database.
	CodeInvalidCatalogName = "3D000"
	// CodeInvalidCursorName: no portal of that name.
	CodeInvalidCursorName = "34000"

	// CodeSerializationFailure: try the whole transaction again.
	CodeSerializationFailure = "40001"
	// CodeDeadlockDetected: chosen as a deadlock's victim; try again.
	CodeDeadlockDetected = "40P01"

	// CodeInsufficientPrivilege: the role may not do that.
	CodeInsufficientPrivilege = "42501"
	// CodeSyntaxError: also for start-up options that cannot be parsed.
	CodeSyntaxError = "42601"
	// CodeUndefinedObject: also for a setting that does not exist.
	CodeUndefinedObject = "42704"
	// CodeDuplicateStatement: a prepared statement of that name exists.
	CodeDuplicateStatement = "42P05"

	// CodeInsufficientResources: out of something that has no code of its own.
	CodeInsufficientResources = "53000"
	// CodeOutOfMemory: out of memory.
	CodeOutOfMemory = "53200"
	// CodeTooManyConnections: no room now. Drivers and their pools treat it as
	// worth trying again, so it is also what a refused statement gets.
	CodeTooManyConnections = "53300"
	// CodeConfigurationLimit: a configured limit has been reached.
	CodeConfigurationLimit = "53400"

	// CodeProgramLimit: larger than what can be handled.
	CodeProgramLimit = "54000"

	// CodeCannotChangeParameter: the setting cannot be changed now.
	CodeCannotChangeParameter = "55P02"
	// CodeLockNotAvailable: a lock was not to be had in time.
	CodeLockNotAvailable = "55P03"

	// CodeQueryCanceled: by request, or by a timer on the statement.
	CodeQueryCanceled = "57014"
	// CodeAdminShutdown: ended by an administrator or by a shutdown.
	CodeAdminShutdown = "57P01"
	// CodeCrashShutdown: ended because another backend crashed.
	CodeCrashShutdown = "57P02"
	// CodeCannotConnectNow: starting up or shutting down; later it will work.
	CodeCannotConnectNow = "57P03"
	// CodeIdleSessionTimeout: ended after idling outside a transaction.
	CodeIdleSessionTimeout = "57P05"

	// CodeInternalError: should not happen; also for an error that came without a code.
	CodeInternalError = "XX000"
)
