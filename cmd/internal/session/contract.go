package session

import (
	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/wire"
)

// Term is what clients are told for one reason. An ERROR keeps the session, as Postgres
// does, and a FATAL ends it.
type Term struct {
	Reason   string // reason= in DETAIL and a label of metrics; "" = Postgres's own error, which has none
	Code     string // SQLSTATE
	Severity string // to a session; to a login it is always FATAL
	Retry    Retry
	Message  string // "" = it names things
	Advice   string // behind retry= in HINT
	When     string // for people
	// Login is the SQLSTATE while the client logs in, if it is another one.
	Login string
	// Queued: with compat = "pgbouncer" it is told, and ended, as PgBouncer does with those
	// who have waited for too long.
	Queued bool
}

// Retry says whether a client may send again what was refused.
type Retry string

// The values of retry= in HINT.
const (
	RetryYes     Retry = "yes"   // nothing of it was done; better later than at once
	RetryNo      Retry = "no"    // it would be refused again
	RetryCheck   Retry = "check" // it may have been done
	RetryNothing Retry = ""      // HINT says nothing for programs
)

const (
	severityKept    = wire.SeverityError
	severityEnded   = wire.SeverityFatal
	codeFull        = wire.CodeTooManyConnections
	codeLimit       = wire.CodeConfigurationLimit
	adviceReconnect = "reconnect"
	adviceCeiling   = "pgweir enforces it for the role, whatever the session sets"
	adviceCheck     = "what was running may or may not have been done; reconnect"
)

// contract has the reasons of the gate first, in their order.
var contract = [...]Term{
	admission.None: {},
	admission.QueueFull: {
		Reason: "queue_full", Code: codeFull, Severity: severityKept, Retry: RetryYes, Queued: true,
		Message: "pgweir: too many requests wait for a server connection",
		When:    "the queue is full",
	},
	admission.QueueAge: {
		Reason: "queue_age", Code: codeFull, Severity: severityKept, Retry: RetryYes, Queued: true,
		Message: "pgweir: no server connection became free in time",
		When:    "waited `max_wait`, or for as long as the queue allows while it stands",
	},
	admission.NoServer: {
		Reason: "no_server", Code: codeFull, Severity: severityKept, Retry: RetryYes, Login: wire.CodeCannotConnectNow, Queued: true,
		Message: "pgweir: no server connection could be made to the database",
		When:    "no server could be opened within `no_server_wait`, or they came and went until `max_wait` + `no_server_wait` were over",
	},
	admission.Draining: {
		Reason: "draining", Code: wire.CodeAdminShutdown, Severity: severityEnded, Retry: RetryYes, Advice: adviceReconnect,
		Message: "pgweir: shutting down",
		When:    "pgweir shuts down, between transactions",
	},
	admission.QueueWait: {
		Reason: "queue_wait", Code: codeFull, Severity: severityKept, Retry: RetryYes, Queued: true,
		Message: "pgweir: the wait for a server connection would be too long",
		When:    "would wait for longer than `max_wait`",
	},
	admission.Displaced: {
		Reason: "displaced", Code: codeFull, Severity: severityKept, Retry: RetryYes, Queued: true,
		Message: "pgweir: others took the place in the queue",
		When:    "others took its place in a queue that stands",
	},
	admission.Deadline: {
		Reason: "deadline", Code: wire.CodeQueryCanceled, Severity: severityKept, Retry: RetryNo,
		Message: "pgweir: canceling statement due to its deadline, before it was sent to the database",
		When:    "the answer would come after the deadline; the statement was not sent",
	},
	admission.Attempts: {
		Reason: "attempts", Code: codeLimit, Severity: severityKept, Retry: RetryNo,
		Message: "pgweir: tried too often",
		When:    "`pgweir.attempt` is above 3",
	},
	admission.Rate: {
		Reason: "rate", Code: codeLimit, Severity: severityKept, Retry: RetryYes,
		Message: "pgweir: over the rate",
		When:    "over the rate of a `[[rate]]`",
	},
	admission.Blocked: {
		Reason: "blocked", Code: codeLimit, Severity: severityEnded, Retry: RetryNo,
		Message: "pgweir: blocked for a while, after too many requests over the rate",
		When:    "blocked for a while by `escalation = \"block\"`",
	},
	admission.Pins: {
		Reason: "pins", Code: codeFull, Severity: severityKept, Retry: RetryYes,
		Message: "pgweir: too many sessions keep a server connection (max_pinned)",
		Advice:  `raise max_pinned of the workload, or give this application one with pool_mode = "session"`,
		When:    "its session would have to keep its server, over `max_pinned`; the statement was not sent",
	},
	{
		Reason: "statement_timeout", Code: wire.CodeQueryCanceled, Severity: severityKept, Retry: RetryNo,
		Message: "canceling statement due to statement timeout",
		Advice:  adviceCeiling,
		When:    "it ran for longer than `statement_timeout` of a role with `ceiling = true`; FATAL if the client does not take the answer",
	},
	{
		Reason: "lock_timeout", Code: wire.CodeLockNotAvailable, Severity: severityKept, Retry: RetryNo,
		Message: "canceling statement due to lock timeout",
		Advice:  adviceCeiling,
		When:    "it waited for a lock for longer than `lock_timeout` of a role with `ceiling = true`",
	},
	{
		Reason: "transaction_timeout", Code: wire.CodeTransactionTimeout, Severity: severityEnded, Retry: RetryNo,
		Message: "terminating connection due to transaction timeout",
		Advice:  adviceCeiling,
		When:    "its transaction took longer than `transaction_timeout` of a role with `ceiling = true`",
	},
	{
		Reason: "idle_in_transaction_session_timeout", Code: wire.CodeIdleInTransactionTimeout, Severity: severityEnded, Retry: RetryNo,
		Message: "terminating connection due to idle-in-transaction timeout",
		Advice:  adviceCeiling,
		When:    "it kept its server waiting in a transaction for longer than `idle_in_transaction_session_timeout` of a role with `ceiling = true`",
	},
	{
		Reason: "max_clients", Code: codeFull, Severity: severityEnded, Retry: RetryYes,
		Advice: "raise max_clients of the role or database, or use smaller pools in the applications",
		When:   "the role or database has `max_clients` clients",
	},
	{
		Reason: "cancelled", Code: wire.CodeQueryCanceled, Severity: severityKept,
		Message: "canceling statement due to user request",
		When:    "cancelled while it waited",
	},
	{
		Reason: "statements", Code: codeLimit, Severity: severityKept, Retry: RetryNo,
		Message: "pgweir: too many different prepared statements",
		Advice:  "prepare fewer different texts, or use parameters instead of literals",
		When:    "too much memory for prepared statements",
	},
	{
		Reason: "settings", Code: codeLimit, Severity: severityKept, Retry: RetryNo,
		Message: "pgweir: too many settings in one session",
		Advice:  "RESET what is not needed, or use SET LOCAL",
		When:    "`SET` of more than 100 settings or 16 kB of them beside those of the startup packet",
	},
	{
		Reason: "settings_refused", Code: wire.CodeInvalidParameterValue, Severity: severityKept, Retry: RetryNo,
		Message: "pgweir: the settings of this session are refused",
		Advice:  "SET or RESET what is refused, or DISCARD ALL",
		When:    "a server does not take what the session has `SET` on another one; the message goes on with what it says",
	},
	{
		Reason: "statement_mode", Code: wire.CodeFeatureNotSupported, Severity: severityKept, Retry: RetryNo,
		Message: "pgweir: transaction blocks are not allowed in statement mode",
		Advice:  `connect with an application_name, role or database whose workload has pool_mode = "transaction"`,
		When:    "`BEGIN` in a workload with `pool_mode = \"statement\"`; FATAL if it was seen too late",
	},
	{
		Reason: "max_client_conn", Code: codeFull, Severity: severityEnded, Retry: RetryYes,
		Message: "pgweir: too many clients (max_client_conn)",
		Advice:  "raise max_client_conn, or use smaller pools in the applications",
		When:    "over `max_client_conn`",
	},
	{
		Reason: "max_logins", Code: codeFull, Severity: severityEnded, Retry: RetryYes,
		Message: "pgweir: too many clients log in at once (max_logins)",
		Advice:  "raise max_logins, or open connections more slowly",
		When:    "over `max_logins`, if it has not begun to say who it is",
	},
	{
		Reason: "descriptors", Code: codeFull, Severity: severityEnded, Retry: RetryYes,
		Message: "pgweir: out of file descriptors",
		When:    "pgweir has no file descriptor left",
	},
	{
		Reason: "names", Code: codeLimit, Severity: severityEnded, Retry: RetryNo,
		Message: "pgweir: clients have named too many databases and roles",
		Advice:  `list the databases instead of [database."*"], and restart pgweir`,
		When:    "clients have named 65,536 databases and roles",
	},
	{
		Code: wire.CodeInvalidPassword, Severity: severityEnded,
		When: "wrong or expired password, or no such role",
	},
	{
		Reason: "hba", Code: wire.CodeInvalidAuthorization, Severity: severityEnded,
		Advice: "pgweir's hba_file decides; SHOW HBA at its console has the rules",
		When:   "no rule of the `hba_file` is for the client, or one that rejects it",
	},
	{
		Code: wire.CodeInvalidAuthorization, Severity: severityEnded,
		When: "`cert` or `peer`: the certificate, or the system user, is not one of the role",
	},
	{
		Reason: "auth_query", Code: wire.CodeCannotConnectNow, Severity: severityEnded, Retry: RetryYes,
		Message: "pgweir: the database could not be asked about the role",
		Advice:  "is Postgres running? pgweir's log says why",
		When:    "`auth_query`, or a group in the `hba_file`: Postgres does not answer, and there is no answer from before",
	},
	{
		Reason: "login_failures", Code: codeLimit, Severity: severityEnded, Retry: RetryYes,
		Message: "pgweir: too many failed logins from this address",
		Advice:  "wait for the answers to those under way, and use the right password",
		When:    "after failed logins from its address, while 5 of the role, or 50 in all, wait for their answers",
	},
	{
		Reason: "tls_required", Code: wire.CodeInvalidAuthorization, Severity: severityEnded, Retry: RetryNo,
		Message: "pgweir: SSL is required",
		Advice:  "connect with sslmode=require or stronger, or have an administrator set sslmode = \"prefer\" in [tls]",
		When:    "in clear, with `sslmode = \"require\"` or stronger in `[tls]`",
	},
	{
		Reason: "client_certificate", Code: wire.CodeInvalidAuthorization, Severity: severityEnded, Retry: RetryNo,
		Message: "connection requires a valid client certificate",
		Advice:  "connect with sslcert and sslkey: a certificate that the ca_file of [tls] vouches for",
		When:    "no certificate, with `sslmode = \"verify-ca\"` or `\"verify-full\"` in `[tls]`",
	},
	{
		Reason: "tls", Code: wire.CodeProtocolViolation, Severity: severityEnded,
		When: "TLS failed before the end of the login: no common version, a certificate that is not good ...; the client hears it in TLS's own words",
	},
	{
		Reason: "login_timeout", Code: wire.CodeQueryCanceled, Severity: severityEnded,
		Message: "canceling authentication due to timeout",
		When:    "not logged in within `client_login_timeout`: for log and counters, the client hears nothing",
	},
	{
		Reason: "role", Code: wire.CodeInvalidAuthorization, Severity: severityEnded,
		Advice: "pgweir was started with a URL and serves only its role; use a configuration file for more",
		When:   "another role than that of `DATABASE_URL`, without a file",
	},
	{
		Reason: "console", Code: wire.CodeInsufficientPrivilege, Severity: severityEnded,
		Advice: `name it in admin_users or stats_users of [console]; or connect as "pgweir" over a Unix socket as the system user that pgweir runs as`,
		When:   "the console is not for this role",
	},
	{
		Reason: "no_database", Code: wire.CodeInvalidCatalogName, Severity: severityEnded,
		When: "no such database configured",
	},
	{
		Reason: "replication", Code: codeFull, Severity: severityEnded, Retry: RetryYes,
		Message: "pgweir: no server connection is left for another replication connection",
		Advice:  "each has one of the budget for itself: raise the budget of the upstream, or end others",
		When:    "a replication connection that got no server of its own within `session_wait`, or would leave none to others",
	},
	{
		Reason: "disabled", Code: wire.CodeCannotConnectNow, Severity: severityEnded, Retry: RetryYes,
		Advice: "an administrator has said DISABLE at pgweir's console; ENABLE ends it",
		When:   "an administrator said `DISABLE`",
	},
	{
		Reason: "killed", Code: wire.CodeAdminShutdown, Severity: severityEnded, Retry: RetryCheck, Advice: adviceCheck,
		Message: "pgweir: an administrator has ended this session",
		When:    "an administrator said `KILL` or `KILL_CLIENT`",
	},
	{
		Reason: "reload", Code: wire.CodeAdminShutdown, Severity: severityEnded, Retry: RetryYes, Advice: adviceReconnect,
		Message: "pgweir: the configuration of this database has changed",
		When:    "a reload has sent its database elsewhere",
	},
	{
		Reason: "password_changed", Code: wire.CodeAdminShutdown, Severity: severityEnded, Retry: RetryYes, Advice: adviceReconnect,
		Message: "pgweir: the database does not take the password any more that this session has logged in with",
		When:    "no server could be opened with what its role has proved at login, and none is open",
	},
	{
		Reason: "idle_timeout", Code: wire.CodeIdleSessionTimeout, Severity: severityEnded, Retry: RetryYes,
		Message: "pgweir: terminating connection due to client_idle_timeout",
		Advice:  "reconnect, or raise client_idle_timeout",
		When:    "idle for `client_idle_timeout`",
	},
	{
		Reason: "server_lost", Code: wire.CodeAdminShutdown, Severity: severityEnded, Retry: RetryCheck, Advice: adviceCheck,
		Message: "pgweir: the server connection was lost",
		When:    "the server of an open request ended",
	},
	{
		Reason: "internal", Code: wire.CodeInternalError, Severity: severityEnded, Retry: RetryCheck,
		Message: "pgweir: internal error",
		Advice:  "pgweir's log has the stack: please report it",
		When:    "pgweir has failed at its request",
	},
	{
		Code: wire.CodeProtocolViolation, Severity: severityEnded,
		When: "the client broke the protocol",
	},
}

// Contract returns the terms, one for each reason.
func Contract() []Term {
	list := contract
	return list[admission.None+1:]
}

// retryAfter is what clients are told who are turned away before pgweir knows more, in ms.
const retryAfter = 1000

// Say returns the error for a reason that has no numbers, with reason= in its DETAIL. The
// caller may change it. It panics if there is no such reason.
func Say(reason string) *wire.Error {
	t := termOf(reason)
	e := &wire.Error{Severity: t.Severity, Code: t.Code, Message: t.Message, Detail: "reason=" + reason}
	b := make([]byte, 0, 128)
	if t.Code == codeFull {
		b = append(appendInt(append(b, "retry_after_ms="...), retryAfter), ' ')
	}
	e.Hint = string(t.appendRetry(b))
	return e
}

// SayLogin is Say for a client that logs in.
func SayLogin(reason string) *wire.Error {
	e := Say(reason)
	e.Severity, e.Code = wire.SeverityFatal, termOf(reason).login()
	return e
}

// termOf returns the term of a reason.
func termOf(reason string) *Term {
	for i := range contract {
		if t := &contract[i]; t.Reason == reason && reason != "" {
			return t
		}
	}
	panic("session: no term for " + reason)
}

// login returns the SQLSTATE while the client logs in.
func (t *Term) login() string {
	if t.Login != "" {
		return t.Login
	}
	return t.Code
}

// appendRetry appends what HINT says to programs, and then to people.
func (t *Term) appendRetry(b []byte) []byte {
	if t.Retry != RetryNothing {
		b = append(append(b, "retry="...), t.Retry...)
		if t.Advice != "" {
			b = append(b, "; "...)
		}
	}
	return append(b, t.Advice...)
}
