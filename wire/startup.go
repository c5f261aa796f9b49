package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
)

// MaxStartup is the largest start-up packet in bytes, without its length word;
// Postgres has the same bound.
const MaxStartup = 10000

// Request codes that stand in the place of a protocol version.
const (
	codeCancel = 1234<<16 | 5678
	codeSSL    = 1234<<16 | 5679
	codeGSSENC = 1234<<16 | 5680
)

// Versions of the protocol that pgweir speaks: 3.0, and 3.2 with its longer
// cancel keys. There never was a 3.1; who asks for it gets 3.0.
const (
	Major       = 3
	LatestMinor = 2
)

// maxName is how much of a role's or database's name counts, in bytes.
const maxName = 63

// protocolOption begins the names of options of the protocol itself.
const protocolOption = "_pq_."

// Packet is what a client sends before it has a session: [SSLRequest],
// [GSSENCRequest], [*CancelRequest] or [*Startup].
type Packet interface{ packet() }

// SSLRequest asks for TLS; the answer is the byte 'S' or 'N'.
type SSLRequest struct{}

// GSSENCRequest asks for GSSAPI encryption; pgweir's answer is the byte 'N'.
type GSSENCRequest struct{}

// Startup opens a session.
type Startup struct {
	Major, Minor uint16   // as asked for; Major is 3
	Params       []Param  // each name once, with its last value, in that order
	Unknown      []string // names of protocol options: pgweir knows none
}

func (SSLRequest) packet()     {}
func (GSSENCRequest) packet()  {}
func (*CancelRequest) packet() {}
func (*Startup) packet()       {}

// ReadStartup reads one packet, and not a byte more than it announces.
//
// The error is io.EOF if the peer left without a byte, io.ErrUnexpectedEOF or
// the reader's own if it stopped half-way, or an *Error with Postgres's words,
// which can be sent as an answer; then the rest of the stream has no meaning.
func ReadStartup(r io.Reader) (Packet, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	length := int64(binary.BigEndian.Uint32(head[:])) - 4
	if length < 4 || length > MaxStartup {
		return nil, violation("invalid length of startup packet")
	}
	body, err := readExact(r, int(length))
	if err != nil {
		return nil, err
	}
	return parsePacket(body)
}

func parsePacket(body []byte) (Packet, error) {
	code, rest := binary.BigEndian.Uint32(body), body[4:]
	switch code {
	case codeCancel:
		return parseCancel(rest)
	case codeSSL, codeGSSENC:
		if len(rest) > 0 {
			return nil, violation("invalid length of startup packet")
		}
		if code == codeSSL {
			return SSLRequest{}, nil
		}
		return GSSENCRequest{}, nil
	}
	s := &Startup{Major: uint16(code >> 16), Minor: uint16(code)}
	if s.Major != Major {
		return nil, UnsupportedProtocol(s.Major, s.Minor)
	}
	if err := s.parse(rest); err != nil {
		return nil, err
	}
	return s, nil
}

// parse reads names and values up to the terminator, which must be the last
// byte of the packet.
func (s *Startup) parse(b []byte) error {
	at := make(map[string]int)
	for {
		name, rest, ok := cutString(b)
		if !ok {
			break
		}
		if name == "" {
			if len(rest) > 0 {
				break
			}
			s.Params = compact(s.Params)
			return nil
		}
		value, rest, ok := cutString(rest)
		if !ok {
			break
		}
		b = rest
		if strings.HasPrefix(name, protocolOption) {
			s.Unknown = append(s.Unknown, name)
			continue
		}
		if i, twice := at[name]; twice {
			s.Params[i].Name = ""
		}
		at[name] = len(s.Params)
		s.Params = append(s.Params, Param{name, value})
	}
	return violation("invalid startup packet layout: expected terminator as last byte")
}

// compact drops the values that a later one of the same name has replaced.
func compact(ps []Param) []Param {
	kept := ps[:0]
	for _, p := range ps {
		if p.Name != "" {
			kept = append(kept, p)
		}
	}
	return kept
}

// Get returns the value of a parameter. Names are compared exactly, as Postgres
// does for user, database, options and replication.
func (s *Startup) Get(name string) (string, bool) {
	for _, p := range s.Params {
		if p.Name == name {
			return p.Value, true
		}
	}
	return "", false
}

// Names returns the role and the database that the session is for, cut to the
// length of a name in Postgres. The database defaults to the role's name. The
// error is what to answer when there is no role.
func (s *Startup) Names() (user, database string, err *Error) {
	user, _ = s.Get("user")
	if user == "" {
		return "", "", &Error{
			Severity: SeverityFatal, Code: CodeInvalidAuthorization,
			Message: "no PostgreSQL user name specified in startup packet",
		}
	}
	if database, _ = s.Get("database"); database == "" {
		database = user
	}
	return cutName(user), cutName(database), nil
}

func cutName(s string) string { return s[:min(len(s), maxName)] }

// AppendStartup appends a start-up packet for protocol 3.minor. It fails, with
// dst as it was, if a name is empty, a name or value contains a zero byte, or
// the packet would be larger than MaxStartup.
func AppendStartup(dst []byte, minor uint16, params []Param) ([]byte, error) {
	start := len(dst)
	out := binary.BigEndian.AppendUint32(append(dst, 0, 0, 0, 0), Major<<16|uint32(minor))
	for _, p := range params {
		if p.Name == "" || strings.IndexByte(p.Name, 0) >= 0 || strings.IndexByte(p.Value, 0) >= 0 {
			// The name alone: values may be secrets.
			return dst, fmt.Errorf("startup parameter %q is empty or contains a zero byte", p.Name)
		}
		out = append(append(out, p.Name...), 0)
		out = append(append(out, p.Value...), 0)
	}
	out = append(out, 0)
	if len(out)-start-4 > MaxStartup {
		return dst, errors.New("startup parameters are too large for a packet")
	}
	binary.BigEndian.PutUint32(out[start:], uint32(len(out)-start))
	return out, nil
}

// AppendSSLRequest appends an SSLRequest.
func AppendSSLRequest(dst []byte) []byte { return appendRequest(dst, codeSSL) }

// AppendGSSENCRequest appends a GSSENCRequest.
func AppendGSSENCRequest(dst []byte) []byte { return appendRequest(dst, codeGSSENC) }

func appendRequest(dst []byte, code uint32) []byte {
	return binary.BigEndian.AppendUint32(append(dst, 0, 0, 0, 8), code)
}

// violation is a packet that the protocol does not allow.
func violation(message string) *Error {
	return &Error{Severity: SeverityFatal, Code: CodeProtocolViolation, Message: message}
}
