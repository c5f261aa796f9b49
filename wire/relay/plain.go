package relay

// A text that ends in comments, as those of a sqlcommenter do, is often one of many that
// differ in nothing else. Each stays what its client has prepared, so that its tags count
// whenever it is run, but servers know them all as one statement, without the comments.

// plain returns the statement that servers have for st. st keeps a reference to it.
func (t *Statements) plain(st *Statement) *Statement {
	if st.base == nil {
		st.base = st
		if st.owned {
			if tail := t.cut([]byte(st.tail), int(st.comments)); tail != nil {
				if base := t.intern(tail); base != nil { // else the table is full
					st.base, base.base = base, base
				}
			}
		}
	}
	return st.base
}

// cut returns a Parse tail without so many bytes at the end of its text, or nil if there are
// none to cut. It is valid until the next call.
func (t *Statements) cut(tail []byte, comments int) []byte {
	if comments == 0 {
		return nil
	}
	text := textOf(tail)
	t.scratch = append(append(t.scratch[:0], text[:len(text)-comments]...), tail[len(text):]...)
	return t.scratch
}

// known returns the statement that servers have for this tail, whose text ends in so many
// bytes of comments, if it is in the table and has been accepted there, without a reference.
func (t *Statements) known(tail []byte, comments int, p proof) *Statement {
	st := t.byTail[string(tail)]
	if st == nil || st.base == nil {
		short := t.cut(tail, comments)
		if short == nil {
			return nil // servers would have it under this tail, and no server was told
		}
		st = t.byTail[string(short)]
	} else {
		st = st.base
	}
	if st == nil || !st.provenAt(p) {
		return nil
	}
	return st
}

// prepKey returns what servers have the statement under.
func (c *Client) prepKey(st *Statement) prepKey {
	return prepKey{c.shared.Statements.plain(st), c.texts()}
}
