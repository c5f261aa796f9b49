package login

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/pgweir/pgweir/wire/scram"
)

// Book is a fixed set of users with their secrets; a reload makes a new one. It
// also knows how to treat users that it does not have, so that they look like
// those that it has.
type Book struct {
	entries    map[string]Secret
	mock       []byte // key of the salts for users without a verifier
	iterations int    // most usual among the verifiers
	scram      bool   // most users that have a password hash have a verifier
	hashes     bool   // some have one of either kind

	runs    atomic.Uint64 // derivations
	mu      sync.Mutex
	derived map[string]derivation // by user, made at need
}

// derivation is what was derived from a password, or from none for a user without a plain
// one.
type derivation struct {
	password string
	verifier *scram.Verifier
}

// maxDerived bounds how many are kept beyond one for each user of the book.
const maxDerived = 10_000

// NewBook makes a book of entries, as [ParseAuthFile] returns them. It keeps the
// map, which must not change any more.
//
// The salts that it invents depend on the entries, so that all instances with
// one file invent the same: otherwise one would only have to ask twice to tell
// the users that exist.
func NewBook(entries map[string]Secret) *Book {
	b := &Book{entries: entries, iterations: scram.DefaultIterations, derived: make(map[string]derivation)}
	counts := make(map[int]int)
	verifiers, others := 0, 0
	random := make([]byte, sha256.Size)
	_, _ = rand.Read(random) // never fails: it ends the program instead
	h := hmac.New(sha256.New, []byte("pgweir mock secret"))
	secrets := false
	for _, user := range slices.Sorted(maps.Keys(entries)) {
		s := entries[user]
		verifier := ""
		switch {
		case s.SCRAM != nil:
			verifier = s.SCRAM.String()
			counts[s.SCRAM.Iterations]++
			verifiers++
		case s.MD5 != "":
			others++
		}
		for _, field := range []string{user, s.Plain, s.MD5, verifier} {
			h.Write([]byte(field + "\x00"))
		}
		secrets = secrets || s.Plain != "" || s.MD5 != "" || verifier != ""
	}
	if !secrets { // nothing that others could not guess
		h.Write(random)
	}
	b.mock, b.scram, b.hashes = h.Sum(nil), verifiers > others, verifiers+others > 0
	for _, n := range slices.Sorted(maps.Keys(counts)) {
		if counts[n] > counts[b.iterations] {
			b.iterations = n
		}
	}
	return b
}

// Open says that there are users who are not in the book, found out about elsewhere: then a
// user that nobody knows looks like one with a verifier unless the book has more hashes of the
// other kind. It is called before the book is used.
func (b *Book) Open() *Book {
	b.scram = b.scram || !b.hashes
	return b
}

// Lookup returns what is known about a user.
func (b *Book) Lookup(user string) (Secret, bool) {
	if b == nil {
		return Secret{}, false
	}
	s, ok := b.entries[user]
	return s, ok
}

// Len returns the number of users.
func (b *Book) Len() int { return len(b.entries) }

// verifier returns a verifier of a user's plain password. It is made once: it costs as much
// as all the rest of a log-in. It is made for all others, too, of an empty password, or the
// first log-in of a user would tell by its length whether there is one and of what kind.
func (b *Book) verifier(user, password string, cpu CPU) *scram.Verifier {
	b.mu.Lock()
	d, known := b.derived[user]
	b.mu.Unlock()
	if known && d.password == password {
		return d.verifier
	}
	var v *scram.Verifier
	b.runs.Add(1)
	cpu.do(func() { v, _ = scram.NewVerifier(password, scram.MockSalt(user, b.mock), b.iterations) })
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, known := b.derived[user]; !known && len(b.derived) >= len(b.entries)+maxDerived {
		for any := range b.derived { // whoever it is: nobody has a place for ever
			delete(b.derived, any)
			break
		}
	}
	b.derived[user] = derivation{password, v} // a second maker at once has made the same
	return v
}

// check reports whether password is the one that a user's secret was made of. It derives keys
// once whatever the secret is, so that it takes the same time for everybody.
func (b *Book) check(s Secret, user, password string, cpu CPU) (ok bool) {
	v := s.SCRAM
	if v == nil { // one that no password fits
		v = &scram.Verifier{Iterations: b.iterations, Salt: scram.MockSalt(user, b.mock)}
	}
	b.runs.Add(1)
	cpu.do(func() { ok = v.Check(password) })
	if s.SCRAM != nil {
		return ok
	}
	return s.check(user, password)
}

// strangers is the book for Secrets that are none: what it invents holds for one
// log-in only.
func strangers(s Secrets) *Book {
	switch b := s.(type) {
	case *Book:
		if b != nil {
			return b
		}
	case Guest:
		return b.Book
	}
	return NewBook(nil)
}
