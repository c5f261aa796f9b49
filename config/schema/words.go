package schema

import "log/slog"

// AuthType is how a client proves who it is.
type AuthType string

// The ways in which this version authenticates clients, in PgBouncer's words.
const (
	Trust    AuthType = "trust"         // it does not have to; the role must be in the auth_file if there is one
	MD5      AuthType = "md5"           // Postgres's MD5 challenge, or SCRAM where the auth_file holds a verifier
	Scram    AuthType = "scram-sha-256" // SCRAM-SHA-256
	Password AuthType = "password"      // the password in clear
	Cert     AuthType = "cert"          // a certificate of the client, whose common name is the role
	Peer     AuthType = "peer"          // the system user at the other end of a Unix socket
	HBA      AuthType = "hba"           // as the rules of the hba_file say
)

// TLSProtocol is a version of TLS, in Postgres's words.
type TLSProtocol string

// The versions that are safe.
const (
	TLS12 TLSProtocol = "TLSv1.2"
	TLS13 TLSProtocol = "TLSv1.3"
)

// OnDisconnect is what becomes of a statement whose client has gone away without Terminate.
type OnDisconnect string

// Both answers to a vanished client.
const (
	Cancel OnDisconnect = "cancel" // cancel what is known to be a read; writes and commits finish
	Finish OnDisconnect = "finish" // let it run
)

// PoolMode is how long a client keeps the server connection that it was given.
type PoolMode string

// PgBouncer's pool modes.
const (
	Transaction PoolMode = "transaction" // until its transaction ends
	Session     PoolMode = "session"     // until it leaves
	Statement   PoolMode = "statement"   // until its statement ends; transactions of several are refused
)

// Compat is whose manners a client sees where pgweir's differ.
type Compat string

// Both manners.
const (
	NoCompat        Compat = "none"      // a refusal is an ERROR, and the client keeps its connection
	PgBouncerCompat Compat = "pgbouncer" // a refusal of the queue is FATAL 08P01 query_wait_timeout, and ends it
)

// RatePer is what has a rate of its own.
type RatePer string

// What a rate can be for.
const (
	PerClient RatePer = "client" // each address
	PerRole   RatePer = "role"
	PerTenant RatePer = "tenant" // each tenant of each role
)

// Escalation is how far pgweir goes with who does not heed a rate's answer.
type Escalation string

// The steps.
const (
	NoEscalation Escalation = "none"
	Delay        Escalation = "delay" // hold back the answer
	Block        Escalation = "block" // and then end its sessions, and let it log in no more for a while
)

// Limit is who decides how many transactions run at once.
type Limit string

// Fixed is the limit of this version: the number of slots.
const Fixed Limit = "fixed"

// Fleet is how the processes of a fleet divide a budget.
type Fleet string

// Static is the division of this version: equal parts.
const Static Fleet = "static"

// LogFormat is the shape of a log line.
type LogFormat string

// The formats of package slog's handlers.
const (
	Text LogFormat = "text"
	JSON LogFormat = "json"
)

// LogLevel is the least level that is logged.
type LogLevel string

// The levels, from much to little.
const (
	Debug LogLevel = "debug"
	Info  LogLevel = "info"
	Warn  LogLevel = "warn"
	Error LogLevel = "error"
)

// Slog is the level of package slog.
func (l LogLevel) Slog() slog.Level {
	switch l {
	case Debug:
		return slog.LevelDebug
	case Warn:
		return slog.LevelWarn
	case Error:
		return slog.LevelError
	default:
		return slog.LevelInfo
	}
}
