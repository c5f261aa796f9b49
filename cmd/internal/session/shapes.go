package session

import (
	"hash/maphash"

	"github.com/pgweir/pgweir/wire/relay"
	"github.com/pgweir/pgweir/wire/sqltext"
)

const (
	// shapeCache is how many texts' fingerprints are remembered, by hashes of the texts.
	shapeCache = 1024
	// shapeText is how much of a text is looked at, in bytes.
	shapeText = 4096
	// observeEvery is of how many requests the time of one is learned while nobody waits.
	observeEvery = 8
)

// shapes finds the fingerprints of statements.
type shapes struct {
	seed  maphash.Seed
	texts []shapeOf // by hash; made at the first use
}

type shapeOf struct{ text, shape uint64 }

// of returns the fingerprint of a request's first statement on the servers of a key; 0 if it
// has none.
func (s *shapes) of(r *relay.Request, key uint32) uint64 {
	shape := uint64(0)
	switch {
	case r.Statement != nil:
		shape = r.Statement.Fingerprint()
	case len(r.Text) > 0:
		shape = s.text(r.Text[:min(len(r.Text)-int(r.Comments), shapeText)]) // tags have no part in it
	}
	if shape == 0 {
		return 0
	}
	return shape ^ (uint64(key)+1)*0x9e3779b97f4a7c15 // the same text costs something else elsewhere
}

func (s *shapes) text(text []byte) uint64 {
	if s.texts == nil {
		s.seed, s.texts = maphash.MakeSeed(), make([]shapeOf, shapeCache)
	}
	h := maphash.Bytes(s.seed, text)
	c := &s.texts[h%shapeCache]
	if c.text != h {
		*c = shapeOf{h, sqltext.Fingerprint(text)}
	}
	return c.shape
}
