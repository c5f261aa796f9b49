package sqltext

import "bytes"

// set reads SET in the forms whose effect is one named parameter. The others
// are Other, with Session unless they end with the transaction.
func (c *classifier) set() Kind {
	c.harmless = true
	kind, scoped := Set, false
	c.step()
	if c.tok == tokWord && (c.kw == kwSession || c.kw == kwLocal) {
		scope := c.kw
		c.name()
		c.step()
		if c.assigns() {
			return c.assign(Set) // a parameter called session.x or local.x
		}
		scoped = true
		if scope == kwLocal {
			kind = SetLocal
		} else if c.tok == tokWord && (c.kw == kwAuthorization || c.kw == kwCharacteristics) {
			return c.sessionPhrase()
		}
	}
	if kind == Set && (scoped || !c.transient()) {
		c.st.Flags |= Session
	}
	if !c.isName() {
		return Other
	}
	word := c.kw
	c.name()
	c.step()
	if c.assigns() {
		return c.assign(kind)
	}
	return c.phrase(kind, word)
}

// sessionPhrase reads what SET SESSION has of its own, from AUTHORIZATION or CHARACTERISTICS on.
func (c *classifier) sessionPhrase() Kind {
	c.st.Flags |= Session
	c.name()
	if c.accept(kwAuthorization) {
		return c.authorization(Set)
	}
	c.step()
	if !bytes.EqualFold(c.text(), []byte("as")) {
		return Other
	}
	c.step()
	if !c.accept(kwTransaction) {
		return Other
	}
	for first := true; first || !c.end(); first = false {
		if !first && c.tok == tokComma {
			c.step()
		}
		if ok, _ := c.txMode(); !ok {
			return Other
		}
	}
	c.st.alias = aliasCharacteristics
	return Set
}

// authorization reads the role of SET SESSION AUTHORIZATION.
func (c *classifier) authorization(kind Kind) Kind {
	c.st.alias = aliasAuthorization
	if c.accept(kwDefault) || c.kw != kwOn && (c.tok == tokWord || c.tok == tokQuoted || c.isString()) && c.value() {
		return kind
	}
	return Other
}

// transient reports whether the current word begins SET TRANSACTION or SET
// CONSTRAINTS, which end with the transaction.
func (c *classifier) transient() bool {
	return c.tok == tokWord && (c.kw == kwTransaction || c.kw == kwConstraints)
}

// assigns reports whether the current token shows that the one before it began
// the name of a parameter.
func (c *classifier) assigns() bool {
	return c.tok == tokDot || c.equals() || c.tok == tokWord && c.kw == kwTo
}

func (c *classifier) equals() bool { return c.tok == tokSymbol && c.src[c.start] == '=' }

// assign reads a parameter and its value from behind the first part of the name.
func (c *classifier) assign(kind Kind) Kind {
	if kind == Set {
		c.st.Flags |= Session
	}
	if !c.dotted() {
		return Other
	}
	if !c.equals() && (c.tok != tokWord || c.kw != kwTo) {
		return Other
	}
	c.step()
	return c.values(kind)
}

// dotted reads the further parts of a name.
func (c *classifier) dotted() bool {
	for c.tok == tokDot {
		c.step()
		if !c.isName() {
			return false
		}
		c.st.nameEnd = uint32(c.pos)
		c.step()
	}
	return true
}

// phrase reads the parameters that have words of their own, from behind the
// first of them.
func (c *classifier) phrase(kind Kind, word keyword) Kind {
	ok := false
	switch {
	case word == kwSession && c.tok == tokWord && c.kw == kwAuthorization:
		c.name()
		c.step()
		return c.authorization(kind)
	case word == kwTime && c.accept(kwZone):
		c.st.alias = aliasTimeZone
		ok = c.accept(kwLocal, kwDefault) || c.zone()
	case word == kwNames:
		c.st.alias = aliasNames
		ok = c.end() || c.accept(kwDefault) || c.isString() && c.value()
	case word == kwSchema:
		c.st.alias = aliasSchema
		ok = c.isString() && c.value()
	case word == kwRole:
		c.st.alias = aliasRole
		ok = c.kw != kwOn && (c.tok == tokWord || c.tok == tokQuoted || c.isString()) && c.value()
	}
	if ok {
		return kind
	}
	return Other
}

// zone reads a time zone: a string, an identifier that is no keyword, a number
// or an interval.
func (c *classifier) zone() bool {
	if c.accept(kwInterval) {
		if !c.isString() || !c.value() {
			return false
		}
		c.st.valueStart, c.st.valueEnd = 0, 0
		return !c.accept(kwHour) || !c.accept(kwTo) || c.accept(kwMinute)
	}
	return (c.tok != tokWord || c.kw == kwNone) && c.value()
}

func (c *classifier) isString() bool { return c.tok >= tokString && c.tok <= tokDollar }

// values reads DEFAULT or a list of values.
func (c *classifier) values(kind Kind) Kind {
	if c.accept(kwDefault) {
		return kind
	}
	if !c.value() {
		return Other
	}
	for c.tok == tokComma {
		c.step()
		if !c.value() {
			return Other
		}
		c.st.valueStart, c.st.valueEnd = 0, 0
	}
	return kind
}

// value reads one value and remembers where it stands if it can be quoted as
// it is.
func (c *classifier) value() bool {
	start, plain := c.start, true
	if c.tok == tokSymbol && (c.src[start] == '-' || c.src[start] == '+') {
		c.step()
		if c.tok != tokNumber {
			return false
		}
		plain = c.start == start+1
	}
	switch c.tok {
	case tokWord:
		if c.kw.reserved() && c.kw != kwTrue && c.kw != kwFalse && c.kw != kwOn {
			return false
		}
	case tokQuoted, tokNumber:
	case tokString:
		text := c.text()
		plain = text[0] == '\'' && bytes.IndexByte(text, '\\') < 0
	case tokEscape, tokCoded, tokDollar:
		plain = false
	default:
		return false
	}
	if plain {
		c.st.valueStart, c.st.valueEnd = uint32(start), uint32(c.pos)
	}
	c.step()
	return true
}

// resetOrShow reads RESET and SHOW of one parameter, or of all.
func (c *classifier) resetOrShow() Kind {
	kind := Show
	if c.head == kwReset {
		kind = Reset
		c.harmless = true
		c.st.Flags |= Session
	} else {
		c.reads = true
	}
	c.step()
	if c.accept(kwAll) {
		c.st.alias = aliasAll
		return kind
	}
	if !c.isName() {
		return Other
	}
	word := c.kw
	c.name()
	c.step()
	switch {
	case c.end():
	case word == kwTime && c.accept(kwZone):
		c.st.alias = aliasTimeZone
	case word == kwSession && c.accept(kwAuthorization):
		c.st.alias = aliasAuthorization
	case word == kwTransaction && c.accept(kwIsolation):
		if !c.accept(kwLevel) {
			return Other
		}
		c.st.alias = aliasIsolation
	default:
		if !c.dotted() {
			return Other
		}
	}
	return kind
}
