package sqltext

// Step is a statement by which a transaction or a part of it ends, or a savepoint begins.
type Step struct {
	// Kind is Commit, also for PREPARE TRANSACTION, CommitChain, Rollback, RollbackChain,
	// Savepoint, Release or RollbackTo.
	Kind Kind
	Name string // the savepoint's
}

// Steps returns the steps of a text in order. It returns nil if there are none, more than
// most, or if it is in doubt where they are: a quote is not closed, or another setting of
// the server would read the text differently.
func Steps(text []byte, most int) []Step {
	var steps []Step
	c := classifier{scanner: scanner{src: text}}
	for {
		c.kw, c.head, c.st = kwNone, kwNone, Statement{}
		c.step()
		if c.tok == tokSemicolon {
			c.depth = 0
			continue
		}
		if c.tok != tokEOF {
			c.st.Kind = c.statement()
			if k := c.stepKind(); k != Other {
				steps = append(steps, Step{k, c.st.Name(text)})
			}
		}
		switch {
		case c.ambiguous || len(steps) > most:
			return nil
		case c.tok == tokEOF && c.broken:
			return nil
		case c.tok == tokEOF:
			return steps
		}
	}
}

// stepKind is the kind of the statement that was read as a step; Other if it is none.
func (c *classifier) stepKind() Kind {
	switch k := c.st.Kind; k {
	case Commit, CommitChain, Rollback, RollbackChain, Savepoint, Release, RollbackTo:
		return k
	case Other:
		if c.head == kwPrepare && c.st.Flags&EndsTx != 0 {
			return Commit
		}
	}
	return Other
}
