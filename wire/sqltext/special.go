package sqltext

import "bytes"

// pgHead is the folded beginning of the names that servers reserve: "pg_".
const pgHead = 'p' | 'g'<<8 | ('_'|0x20)<<16

// system handles an identifier that begins with pg_.
func (c *classifier) system(name []byte) {
	switch {
	case hasPrefixFold(name, "pg_temp"):
		c.st.Flags |= Temp
	case hasPrefixFold(name, "pg_advisory_lock"), hasPrefixFold(name, "pg_try_advisory_lock"):
		c.st.Flags |= Advisory // the transaction-level ones say xact before lock
	case len(name) == len("pg_settings") && hasPrefixFold(name, "pg_settings"):
		c.settings = true
	}
}

// quoted handles a quoted identifier, which may spell what matters as a word.
func (c *classifier) quoted() {
	if c.tok == tokUnicode {
		// Its escapes could spell anything.
		c.st.Flags |= Session | Temp | Advisory
		c.reads = false
		return
	}
	name := bytes.Trim(c.text(), `"`)
	switch {
	case c.head == kwDo:
		c.anything() // a language in quotes
	case len(name) < 7:
	case lookup(foldHead(name), name) == kwRunsText:
		c.runsText()
	case string(name) == "set_config":
		c.callSetConfig()
	case c.head == kwExplain && string(name) == "analyze":
		c.reads = false
	case name[0] == 'p':
		c.system(name)
	}
}

// anything is for what could do anything to a session.
func (c *classifier) anything() {
	c.st.Flags |= Session | Temp | Listen | Prepare | Cursor | Advisory | Dealloc
	c.reads = false
}

// runsText handles the name of a function that runs a text as a query that may only
// read: it can set what is not local, and lock.
func (c *classifier) runsText() {
	c.st.Flags |= Session | Advisory
	c.reads = false
}

// language handles a word beside the body of a DO block.
func (c *classifier) language() {
	switch word := c.text(); {
	case len(word) == len("language") && hasPrefixFold(word, "language"):
	case len(word) == len("plpgsql") && hasPrefixFold(word, "plpgsql"):
	default:
		c.anything() // nobody reads that language here
	}
}

// literal looks into a string that is a setting or the body of a DO block.
func (c *classifier) literal() {
	if c.head == kwDo {
		if c.tok == tokCoded || c.tok != tokDollar && bytes.IndexByte(c.text(), '\\') >= 0 {
			c.anything() // its escapes could spell anything
			return
		}
		c.body(c.text())
		return
	}
	for text := c.text(); len(text) >= len("pg_temp"); text = text[1:] {
		if hasPrefixFold(text, "pg_temp") {
			c.st.Flags |= Temp
			return
		}
	}
}

// body notes the words of a DO block, in whatever place: its language and its
// own quoting are unknown.
func (c *classifier) body(text []byte) {
	for i := 0; i < len(text); {
		if text[i]|0x20 == 'u' && i+2 < len(text) && text[i+1] == '&' && text[i+2] == '"' {
			c.anything() // a name with escapes
			return
		}
		j := i
		for j < len(text) && classes[text[j]]&clWord != 0 && text[j] != '$' {
			j++
		}
		if j == i {
			i++
			continue
		}
		word := text[i:j]
		switch lookup(foldHead(word), word) {
		case kwTemp:
			c.st.Flags |= Temp
		case kwListen:
			c.st.Flags |= Listen
		case kwPrepare:
			c.st.Flags |= Prepare
		case kwHold:
			c.st.Flags |= Cursor
		case kwDeallocate, kwDiscard:
			c.st.Flags |= Dealloc
		case kwExecute:
			c.anything()
			return
		default:
			c.system(word)
		}
		i = j
	}
}

// hasPrefixFold reports whether b begins with the lower-case prefix, in any
// letter case.
func hasPrefixFold(b []byte, prefix string) bool {
	if len(b) < len(prefix) {
		return false
	}
	for i := range len(prefix) {
		if b[i] != prefix[i] && (b[i]|0x20 != prefix[i] || b[i] < 'A' || b[i] > 'Z') {
			return false
		}
	}
	return true
}

// callState says how much of a call of set_config has been read.
type callState uint8

const (
	callNone callState = iota
	callName           // the name, or the name before it
	callArgs           // inside the parentheses
)

// call is the set_config call being read. Only the third argument matters: the
// word true alone makes the setting local to the transaction.
type call struct {
	state callState
	fresh bool // the name is the current token
	local bool // the third argument is the word true, so far
	depth int  // of the arguments
	arg   int
	words int // tokens of the third argument
}

func (c *classifier) callSetConfig() {
	if c.call.state == callArgs {
		c.st.Flags |= Session // one inside the other: not followed
		return
	}
	c.call = call{state: callName, fresh: true}
}

// track follows the call token by token.
func (c *classifier) track() {
	k := &c.call
	switch {
	case k.fresh:
		k.fresh = false
	case k.state == callName:
		if c.tok != tokOpen {
			k.state = callNone // a column of that name
			return
		}
		k.state, k.depth, k.arg = callArgs, c.depth, 1
	case c.tok == tokClose && c.depth < k.depth:
		if k.arg != 3 || k.words != 1 || !k.local {
			c.st.Flags |= Session
		}
		k.state = callNone
	case c.tok == tokComma && c.depth == k.depth:
		k.arg++
	case k.arg == 3:
		k.words++
		k.local = c.kw == kwTrue
	}
}
