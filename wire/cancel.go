package wire

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/binary"
)

// Lengths of a cancel key's secret in bytes.
const (
	MinSecret = 4   // the only length in protocol 3.0
	MaxSecret = 256 // the bound of protocol 3.2
	newSecret = 32  // what pgweir makes for protocol 3.2, as Postgres 18 does
)

// CancelRequest asks to cancel what the session of that key does. It is not
// answered.
type CancelRequest struct {
	PID    uint32
	Secret []byte // MinSecret to MaxSecret bytes
}

// parseCancel reads what follows the request code.
func parseCancel(b []byte) (Packet, error) {
	if len(b) < 4 {
		return nil, violation("invalid length of cancel request packet")
	}
	secret := b[4:]
	if len(secret) < MinSecret || len(secret) > MaxSecret {
		return nil, violation("invalid length of cancel key in cancel request packet")
	}
	return &CancelRequest{PID: binary.BigEndian.Uint32(b), Secret: secret}, nil
}

// AppendCancelRequest appends a CancelRequest with a secret of MinSecret to
// MaxSecret bytes.
func AppendCancelRequest(dst []byte, pid uint32, secret []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(12+len(secret)))
	dst = binary.BigEndian.AppendUint32(dst, codeCancel)
	dst = binary.BigEndian.AppendUint32(dst, pid)
	return append(dst, secret...)
}

// CancelKey is what a client may cancel its session by. Keys are values without
// pointers; whoever keeps them in a map keys it by PID and compares with
// Matches, never by the secret.
type CancelKey struct {
	PID    uint32 // 1 to 2^31-1: drivers keep it in a signed integer
	length uint8
	secret [newSecret]byte
}

// NewCancelKey makes a key for a session that speaks protocol 3.minor, with a
// random secret and the given process id, whose sign bit is dropped; 0 stands
// for a random one.
func NewCancelKey(pid uint32, minor uint16) CancelKey {
	k := CancelKey{PID: pid & (1<<31 - 1), length: MinSecret}
	if minor >= 2 {
		k.length = newSecret
	}
	for k.PID == 0 {
		var b [4]byte
		_, _ = rand.Read(b[:]) // never fails: it ends the program instead
		k.PID = binary.BigEndian.Uint32(b[:]) & (1<<31 - 1)
	}
	_, _ = rand.Read(k.secret[:k.length])
	return k
}

// Secret returns a copy of the secret.
func (k CancelKey) Secret() []byte { return append([]byte(nil), k.secret[:k.length]...) }

// Matches reports whether the request names this key, in a time that does not
// depend on how much of the secret is right. The zero key matches nothing.
func (k CancelKey) Matches(r *CancelRequest) bool {
	return k.length > 0 && k.PID == r.PID && subtle.ConstantTimeCompare(k.secret[:k.length], r.Secret) == 1
}

// Append appends the BackendKeyData that tells the client its key.
func (k CancelKey) Append(dst []byte) []byte {
	return AppendBackendKeyData(dst, k.PID, k.secret[:k.length])
}
