package sqltext

// Classify reads a text, without its terminating NUL, once. It never fails:
// what is not understood has the kind Other.
func Classify(text []byte) Statement {
	c := classifier{scanner: scanner{src: text}}
	st := c.run()
	start := c.trail
	switch {
	case c.ambiguous:
		st, start = reread(text, st, c.broken), trailing(text)
	case c.broken:
		return unknown(st)
	}
	if start >= 0 && blockEnds(text) {
		st.comments = uint32(len(text) - start)
	}
	return st
}

// reread merges the answers under every mode. A reading that leaves a quote
// open is a syntax error as a whole and says nothing.
func reread(text []byte, st Statement, broken bool) Statement {
	merged := st
	for m := mode(1); m < modes; m++ {
		c := classifier{scanner: scanner{src: text, mode: m}}
		other := c.run()
		if c.broken {
			continue
		}
		if broken || other != st {
			flags := merged.Flags | other.Flags
			merged = unknown(merged)
			merged.Flags |= flags &^ PlainBegin
		}
	}
	if broken {
		merged = unknown(merged)
	}
	return merged
}

func unknown(st Statement) Statement {
	return Statement{Kind: Other, Flags: st.Flags&^PlainBegin | Writes}
}

// classifier walks over the statements of one text.
type classifier struct {
	scanner

	tok  token   // the current token
	kw   keyword // its code, kwSemicolon for ";"
	prev keyword // the code of the token before

	head     keyword // the first word of the current statement
	depth    int     // open parentheses
	reads    bool    // the current statement is known to read, so far
	harmless bool    // it is neither known to read nor a write
	atomic   bool    // inside BEGIN ATOMIC ... END
	routine  bool    // CREATE [OR REPLACE] FUNCTION or PROCEDURE
	settings bool    // it names pg_settings
	noKey    bool    // the current words are FOR NO or FOR NO KEY
	keyShare bool    // the current words are FOR KEY
	call     call    // a call of set_config being read

	st         Statement
	statements int
	trail      int  // where the comments begin behind the last statement; or -1
	dropped    bool // some statement is DISCARD or DEALLOCATE
	savepoints bool // some statement is about a savepoint
}

// run classifies the whole text.
func (c *classifier) run() Statement {
	c.trail = -1
	for {
		c.kw, c.head = kwNone, kwNone
		c.step()
		if c.tok == tokEOF || c.tok == tokSemicolon {
			if c.trail < 0 {
				c.trail = c.tail
			}
			if c.tok == tokEOF {
				return c.result()
			}
			c.depth = 0
			continue
		}
		kind := c.statement()
		c.trail = c.tail
		c.savepoints = c.savepoints || kind >= RollbackTo
		if c.statements++; c.statements == 1 {
			c.st.Kind = kind
		}
		if c.tok == tokEOF {
			return c.result()
		}
	}
}

func (c *classifier) result() Statement {
	switch {
	case c.statements == 0:
		c.st.Kind = Empty
	case c.statements > 1:
		flags := c.st.Flags&^PlainBegin | Multi
		if c.dropped {
			flags |= Dealloc
		}
		if c.savepoints {
			flags |= Savepoints
		}
		return Statement{Kind: Other, Flags: flags}
	}
	return c.st
}

// statement classifies one statement, whose first token is the current one,
// and leaves its ";" or the end of the text as the current token.
func (c *classifier) statement() Kind {
	c.reads, c.harmless, c.routine, c.settings = false, false, false, false
	for c.tok == tokOpen {
		c.step()
	}
	c.head = kwNone
	if c.tok == tokWord {
		c.head = c.kw
	}
	kind := c.grammar()
	if !c.end() {
		kind = Other
		for !c.end() {
			c.step()
		}
	}
	return c.finish(kind)
}

// finish settles what is known only at the end of a statement.
func (c *classifier) finish(kind Kind) Kind {
	if c.call.state == callArgs {
		c.st.Flags |= Session // not closed
	}
	c.call.state = callNone
	c.atomic = false
	if kind != Other {
		return kind
	}
	c.st.drop()
	switch {
	case c.reads:
		return Read
	case c.settings:
		c.st.Flags |= Session
	}
	if !c.harmless {
		c.st.Flags |= Writes
	}
	return Other
}

// drop forgets the names found by a grammar that did not match to the end.
func (s *Statement) drop() { *s = Statement{Kind: s.Kind, Flags: s.Flags &^ PlainBegin} }

// end reports whether the current token ends the statement.
func (c *classifier) end() bool {
	return c.tok == tokEOF || c.tok == tokSemicolon && c.depth == 0 && !c.atomic
}

// step moves to the next token and notes what it does wherever it stands.
func (c *classifier) step() {
	c.prev = c.kw
	c.kw = kwNone
	c.tok = c.next()
	switch c.tok {
	case tokWord:
		c.kw = lookup(c.fold, c.text())
		if c.head == kwDo {
			c.language()
		}
		if c.kw > kwNotable {
			c.notable()
		} else if c.kw == kwNone && c.fold&0xffffff == pgHead {
			c.system(c.text())
		}
	case tokOpen:
		c.depth++
	case tokClose:
		if c.depth > 0 {
			c.depth--
		}
	case tokSemicolon:
		c.kw = kwSemicolon
	case tokQuoted, tokUnicode:
		c.quoted()
	case tokString, tokEscape, tokCoded, tokDollar:
		if c.head == kwSet || c.call.state != callNone || c.head == kwDo {
			c.literal()
		}
	}
	if c.call.state != callNone {
		c.track()
	}
}

// notable handles the words that matter wherever they stand.
func (c *classifier) notable() {
	switch c.kw {
	case kwInsert, kwDelete, kwMerge, kwInto:
		c.reads = false
	case kwUpdate:
		if c.prev == kwFor || c.prev == kwKey && c.noKey {
			c.st.Flags |= Locks
		} else {
			c.reads = false
		}
	case kwNo:
		c.noKey = c.prev == kwFor
	case kwKey:
		c.noKey = c.noKey && c.prev == kwNo
		c.keyShare = c.prev == kwFor
	case kwShare:
		if c.prev == kwFor || c.prev == kwKey && c.keyShare {
			c.st.Flags |= Locks
		}
	case kwAnalyze:
		if c.head == kwExplain {
			c.reads = false
		}
	case kwTemp:
		switch c.prev {
		case kwCreate, kwLocal, kwGlobal, kwReplace, kwInto:
			c.st.Flags |= Temp
		}
	case kwHold:
		if c.head == kwDeclare && c.prev == kwWith {
			c.st.Flags |= Cursor
		}
	case kwSetConfig:
		c.callSetConfig()
	case kwExecute:
		c.st.Flags |= Prepare // its text is not here: it could be any
	case kwRunsText:
		c.runsText()
	case kwAtomic:
		c.atomic = c.atomic || c.routine && c.prev == kwBegin
	case kwEnd:
		// Every statement of an atomic body ends in ";", so its END follows one.
		if c.prev == kwSemicolon || c.prev == kwAtomic {
			c.atomic = false
		}
	}
}
