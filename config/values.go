package config

import (
	"log/slog"
	"strconv"
	"strings"
	"time"
)

// Duration is a length of time, or [None]: no limit.
type Duration time.Duration

// None is the Duration that a file writes as "none".
const None Duration = -1

// IsNone reports whether d is [None].
func (d Duration) IsNone() bool { return d < 0 }

// Std is d for package time. [None] gives 0, so ask [Duration.IsNone] first where 0 would
// mean "at once".
func (d Duration) Std() time.Duration { return max(0, time.Duration(d)) }

// String writes d as a file does: "none", "200ms", "1h30m", "7d".
func (d Duration) String() string {
	if d.IsNone() {
		return "none"
	}
	if d == 0 {
		return "0s"
	}
	var b strings.Builder
	rest := time.Duration(d)
	for _, u := range durationUnits() {
		if n := rest / u.size; n > 0 {
			b.WriteString(strconv.FormatInt(int64(n), 10) + u.name)
			rest -= n * u.size
		}
	}
	return b.String()
}

// Count is a number, or [Auto]: pgweir works it out.
type Count int

// Auto is the Count that a file writes as "auto".
const Auto Count = -1

// IsAuto reports whether c is [Auto].
func (c Count) IsAuto() bool { return c < 0 }

// String writes c as a file does.
func (c Count) String() string {
	if c.IsAuto() {
		return "auto"
	}
	return strconv.Itoa(int(c))
}

// Size is a number of bytes.
type Size int64

// String writes s as a file does, in the largest unit that divides it: "1MiB", "1500B".
func (s Size) String() string {
	for _, u := range sizeUnits() {
		if s >= u.size && s%u.size == 0 {
			return strconv.FormatInt(int64(s/u.size), 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10) + "B"
}

// Share is a part of a whole in hundredths of a percent: 10000 is all of it.
type Share int

// AutoShare is the Share that a file writes as "auto": a part of what the others leave.
const AutoShare Share = -1

// whole is all of it, as a Share.
const whole Share = 10000

// IsAuto reports whether s is [AutoShare].
func (s Share) IsAuto() bool { return s < 0 }

// Fraction is the share as a number from 0 to 1.
func (s Share) Fraction() float64 { return float64(max(0, s)) / float64(whole) }

// Of is the share of n, rounded down.
func (s Share) Of(n int) int { return int(int64(n) * int64(s) / 10000) }

// String writes s as a file does: "30%", "12.5%".
func (s Share) String() string {
	if s.IsAuto() {
		return "auto"
	}
	return strconv.FormatFloat(float64(s)/100, 'f', -1, 64) + "%"
}

// AuthType is how a client proves who it is.
type AuthType string

// The ways in which this version authenticates clients, in PgBouncer's words.
const (
	Trust    AuthType = "trust"         // it does not have to; the role must be in the auth_file if there is one
	MD5      AuthType = "md5"           // Postgres's MD5 challenge, or SCRAM where the auth_file holds a verifier
	Scram    AuthType = "scram-sha-256" // SCRAM-SHA-256
	Password AuthType = "password"      // the password in clear
)

// SSLMode is libpq's sslmode.
type SSLMode string

// The modes of this version. It speaks no TLS, so Prefer ends up in clear, as it does with
// a Postgres that has no certificate.
const (
	Disable SSLMode = "disable"
	Prefer  SSLMode = "prefer"
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

// SessionAttrs is libpq's target_session_attrs: which of several hosts will do.
type SessionAttrs string

// The values of libpq.
const (
	AnySession    SessionAttrs = "any"
	ReadWrite     SessionAttrs = "read-write"     // accepts writes by default
	ReadOnly      SessionAttrs = "read-only"      // does not
	Primary       SessionAttrs = "primary"        // is not in recovery
	Standby       SessionAttrs = "standby"        // is
	PreferStandby SessionAttrs = "prefer-standby" // a standby, or else any
)

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
