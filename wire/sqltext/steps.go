package sqltext

// Step is a statement by which a transaction or a part of it ends, or a savepoint begins, or
// a SET or RESET.
type Step struct {
	// Kind is Commit, also for PREPARE TRANSACTION, CommitChain, Rollback, RollbackChain,
	// Savepoint, Release or RollbackTo; Set, also for SET LOCAL, SET TRANSACTION and SET
	// CONSTRAINTS; or Reset.
	Kind     Kind
	Name     string    // the savepoint's
	Settings []Setting // of Set and Reset
}

// Steps returns the steps of a text in order, and in rest the flags of its statements but
// for what Settings of the steps say. It returns no steps if there are none, more than
// most, or if it is in doubt where they are: a quote is not closed, or another setting of
// the server would read the text differently. In the two last cases ok is false.
func Steps(text []byte, most int) (steps []Step, rest Flags, ok bool) {
	c := classifier{scanner: scanner{src: text}}
	for {
		if c.nextStatement() {
			c.st.Kind = c.statement()
			flags := c.st.Flags
			switch k := c.stepKind(); k {
			case Other:
			case Set, Reset:
				list, known := c.st.Settings(text)
				if known {
					flags &^= Session
				}
				steps = append(steps, Step{Kind: k, Settings: list})
			default:
				steps = append(steps, Step{Kind: k, Name: c.st.Name(text)})
			}
			rest |= flags
		}
		switch {
		case c.ambiguous || len(steps) > most:
			return nil, rest, false
		case c.tok == tokEOF && c.broken:
			return nil, rest, false
		case c.tok == tokEOF:
			return steps, rest, true
		}
	}
}

// nextStatement comes to the first token of the next statement that is not empty, of which nothing is
// known yet. It reports false at the end of the text.
func (c *classifier) nextStatement() bool {
	for {
		c.kw, c.head, c.st = kwNone, kwNone, Statement{}
		c.step()
		if c.tok != tokSemicolon {
			return c.tok != tokEOF
		}
		c.depth = 0
	}
}

// stepKind is the kind of the statement that was read as a step; Other if it is none.
func (c *classifier) stepKind() Kind {
	switch c.head {
	case kwSet:
		return Set
	case kwReset:
		return Reset
	}
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
