package loop

// End says how a connection died. It is the argument of [Handler].End.
type End uint8

// The ways in which a connection ends without our having closed it.
const (
	Reset     End = iota + 1 // the peer reset it, or a read or a write failed
	Stalled                  // unsent bytes made no progress for the time given to SetStall
	Overflow                 // the handler left more than Options.MaxKeep bytes
	BadTLS                   // the peer's bytes were not acceptable to crypto/tls
	Unwatched                // the kernel refused to register the descriptor
)

// String returns a short lower-case word, fit for a metric label.
func (e End) String() string {
	switch e {
	case Reset:
		return "reset"
	case Stalled:
		return "stalled"
	case Overflow:
		return "overflow"
	case BadTLS:
		return "bad_tls"
	case Unwatched:
		return "unwatched"
	}
	return "unknown"
}
