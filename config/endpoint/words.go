package endpoint

// SSLMode is libpq's sslmode.
type SSLMode string

// The modes, each stricter than the one before.
const (
	Disable    SSLMode = "disable"
	Allow      SSLMode = "allow"
	Prefer     SSLMode = "prefer"
	Require    SSLMode = "require"
	VerifyCA   SSLMode = "verify-ca"
	VerifyFull SSLMode = "verify-full"
)

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
