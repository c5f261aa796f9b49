package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// UnsupportedProtocol is the answer to a major version that pgweir does not
// speak, and to a second SSLRequest or GSSENCRequest, which Postgres takes for
// a version too.
func UnsupportedProtocol(major, minor uint16) *Error {
	return &Error{
		Severity: SeverityFatal, Code: CodeFeatureNotSupported,
		Message: fmt.Sprintf("unsupported frontend protocol %d.%d: server supports %d.0 to %d.%d",
			major, minor, Major, Major, LatestMinor),
	}
}

// Speaks is the minor version that the session will use: 0 or 2.
func (s *Startup) Speaks() uint16 {
	if s.Minor < LatestMinor {
		return 0
	}
	return LatestMinor
}

// AppendNegotiation appends the NegotiateProtocolVersion that this client must
// get before the authentication request: only if it asks for more than pgweir
// knows, be it a newer minor version or a protocol option. Clients do that on
// purpose to see that servers answer. It names the version that Postgres 18
// would name, which is what was asked for if that is not newer.
func (s *Startup) AppendNegotiation(dst []byte) []byte {
	if s.Minor <= LatestMinor && len(s.Unknown) == 0 {
		return dst
	}
	dst, at := begin(dst, MsgNegotiateProtocolVersion)
	dst = binary.BigEndian.AppendUint32(dst, Major<<16|uint32(min(s.Minor, LatestMinor)))
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(s.Unknown)))
	for _, name := range s.Unknown {
		dst = append(append(dst, name...), 0)
	}
	return end(dst, at)
}

// Negotiation is a server's NegotiateProtocolVersion.
type Negotiation struct {
	Major, Minor uint16   // the newest version that the server would speak
	Unknown      []string // protocol options that it does not know
}

// ParseNegotiation reads the body of a NegotiateProtocolVersion.
func ParseNegotiation(body []byte) (Negotiation, error) {
	if len(body) < 8 {
		return Negotiation{}, errors.New("NegotiateProtocolVersion is too short")
	}
	version, count := binary.BigEndian.Uint32(body), binary.BigEndian.Uint32(body[4:])
	n := Negotiation{Major: uint16(version >> 16), Minor: uint16(version)}
	rest := body[8:]
	for ; count > 0; count-- {
		name, after, ok := cutString(rest)
		if !ok {
			return Negotiation{}, errors.New("NegotiateProtocolVersion ends within an option")
		}
		n.Unknown, rest = append(n.Unknown, name), after
	}
	if len(rest) > 0 {
		return Negotiation{}, errors.New("NegotiateProtocolVersion has bytes after its options")
	}
	return n, nil
}
