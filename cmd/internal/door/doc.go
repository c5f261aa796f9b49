// Package door is how those are dealt with who may not come in: failed logins that are answered
// later and later, roles that are blocked at an address for a while, answers that are held back
// without a goroutine each, and listeners that take nobody any more, for want of descriptors or
// because the process is about to end. It knows nothing of sessions; who may log in is login's.
package door
