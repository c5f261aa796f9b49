package sqltext

// grammar reads the current statement as far as its first word has a grammar
// here. If the statement has not ended where it returns, it was Other.
func (c *classifier) grammar() Kind {
	switch c.head {
	case kwSelect:
		return c.query()
	case kwValues, kwTable, kwWith, kwExplain:
		c.reads = true
		return Other
	}
	if c.depth > 0 {
		return Other // parentheses enclose queries only
	}
	return c.command()
}

// query reads SELECT, to tell the drivers' probe from others.
func (c *classifier) query() Kind {
	c.reads = true
	if c.depth > 0 {
		return Other
	}
	c.step()
	if c.tok != tokNumber || !digits(c.text()) {
		return Other
	}
	c.step()
	return Probe
}

func digits(b []byte) bool {
	for _, c := range b {
		if !digit(c) {
			return false
		}
	}
	return true
}

// command reads what is not a query.
func (c *classifier) command() Kind {
	switch c.head {
	case kwBegin, kwStart:
		return c.begin()
	case kwCommit, kwEnd:
		c.st.Flags |= EndsTx
		return c.finishTx(Commit)
	case kwRollback, kwAbort:
		return c.finishTx(Rollback)
	case kwSavepoint:
		c.harmless = true
		c.step()
		return c.savepoint(Savepoint)
	case kwRelease:
		c.harmless = true
		c.step()
		return c.savepoint(Release)
	case kwSet:
		return c.set()
	case kwReset, kwShow:
		return c.resetOrShow()
	case kwDiscard:
		return c.discard()
	case kwDeallocate:
		return c.deallocate()
	case kwPrepare:
		c.prepare()
	case kwListen:
		c.st.Flags |= Listen
	case kwLoad:
		c.st.Flags |= Load
	case kwCopy:
		c.st.Flags |= Copy
	case kwDo:
		c.st.Flags |= Session
	case kwCreate:
		c.create()
	}
	return Other
}

// accept steps over the current token if it is one of the words.
func (c *classifier) accept(words ...keyword) bool {
	for _, w := range words {
		if c.tok == tokWord && c.kw == w {
			c.step()
			return true
		}
	}
	return false
}

// begin reads BEGIN and START TRANSACTION with their modes.
func (c *classifier) begin() Kind {
	c.step()
	if c.head == kwStart {
		if !c.accept(kwTransaction) {
			return Other
		}
	} else {
		c.accept(kwWork, kwTransaction)
	}
	c.harmless = true
	plain := true
	for first := true; !c.end(); first = false {
		if !first && c.tok == tokComma {
			c.step()
		}
		ok, safe := c.txMode()
		if !ok {
			return Other
		}
		plain = plain && safe
	}
	if plain {
		c.st.Flags |= PlainBegin
	}
	if c.head == kwStart {
		c.st.Flags |= Start
	}
	return Begin
}

// txMode reads one transaction mode; safe is false if a server might refuse it.
func (c *classifier) txMode() (ok, safe bool) {
	switch {
	case c.accept(kwRead):
		if c.accept(kwOnly) {
			return true, true
		}
		return c.accept(kwWrite), false
	case c.accept(kwIsolation):
		if !c.accept(kwLevel) {
			return false, false
		}
		switch {
		case c.accept(kwRead):
			return c.accept(kwCommitted, kwUncommitted), true
		case c.accept(kwRepeatable):
			return c.accept(kwRead), true
		}
		return c.accept(kwSerializable), false
	case c.accept(kwNot):
		return c.accept(kwDeferrable), false
	}
	return c.accept(kwDeferrable), false
}

// finishTx reads the rest of COMMIT and ROLLBACK.
func (c *classifier) finishTx(kind Kind) Kind {
	c.harmless = true
	c.step()
	c.accept(kwWork, kwTransaction)
	if kind == Rollback {
		if c.accept(kwTo) {
			return c.savepoint(RollbackTo)
		}
		c.st.Flags |= EndsTx
	}
	if c.end() {
		return kind
	}
	if !c.accept(kwAnd) {
		return Other
	}
	again := !c.accept(kwNo)
	switch {
	case !c.accept(kwChain):
		return Other
	case !again:
		return kind
	case kind == Commit:
		return CommitChain
	}
	return RollbackChain
}

// savepoint reads the name of a savepoint, with or without SAVEPOINT in front of it.
func (c *classifier) savepoint(kind Kind) Kind {
	if kind != Savepoint && c.tok == tokWord && c.kw == kwSavepoint {
		c.name()
		c.step()
		if c.end() {
			return kind // of one called savepoint
		}
	}
	if !c.isName() {
		return Other
	}
	c.name()
	c.step()
	return kind
}

// discard reads DISCARD ALL.
func (c *classifier) discard() Kind {
	c.harmless, c.dropped = true, true
	c.step()
	if c.accept(kwAll) {
		c.st.Flags |= Session
		return Discard
	}
	return Other
}

// deallocate reads DEALLOCATE [PREPARE] { name | ALL }.
func (c *classifier) deallocate() Kind {
	c.harmless, c.dropped = true, true
	c.step()
	if c.tok == tokWord && c.kw == kwPrepare {
		c.name()
		c.step()
		if c.end() {
			return Deallocate // of a statement called prepare
		}
	}
	if c.accept(kwAll) {
		c.st.drop()
		return DeallocateAll
	}
	if !c.isName() {
		return Other
	}
	c.name()
	c.step()
	return Deallocate
}

// prepare tells a prepared statement from a prepared transaction.
func (c *classifier) prepare() {
	c.step()
	if c.tok == tokWord && c.kw == kwTransaction {
		c.st.Flags |= EndsTx
		c.step()
		if c.isString() {
			return
		}
	}
	c.st.Flags |= Prepare // also of a statement called transaction
}

// create looks whether a routine is created, whose body may be atomic.
func (c *classifier) create() {
	c.step()
	if c.accept(kwOr) {
		c.accept(kwReplace)
	}
	c.routine = c.tok == tokWord && (c.kw == kwFunction || c.kw == kwProcedure)
}

// isName reports whether the current token can be a name.
func (c *classifier) isName() bool {
	return c.tok == tokQuoted || c.tok == tokWord && c.kw.identifier()
}

// name takes the current token for the statement's name.
func (c *classifier) name() {
	c.st.nameStart, c.st.nameEnd = uint32(c.start), uint32(c.pos)
}
