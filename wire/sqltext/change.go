package sqltext

// Effect is what a statement does to the state that a session has on its server beyond the
// transaction.
type Effect uint8

// The effects. Those before Unlistens leave something, the others take it away. Of what is
// left the name "" says that it is not known, or has none; what is taken away with the name ""
// is all of its kind.
const (
	Listens    Effect = iota // LISTEN
	Prepares                 // PREPARE of a statement
	Creates                  // of something temporary; named only if it is a relation
	Declares                 // a cursor WITH HOLD
	TakesLock                // a session-level advisory lock for each of its rows
	TriesLock                // the same, for each row that is true
	MayLock                  // any number of these
	Loads                    // LOAD: nothing takes a library away
	Unlistens                // UNLISTEN
	Forgets                  // DEALLOCATE
	Drops                    // of relations, temporary or not; DISCARD TEMP
	Alters                   // ALTER: what the temporary relations are called is not known any more
	Closes                   // CLOSE
	Unlocks                  // gives back one for each row that is true
	UnlocksAll               // all of them
	Discards                 // DISCARD ALL
)

// Leaves reports whether the effect is that something is left.
func (e Effect) Leaves() bool { return e < Unlistens }

// Change is one effect of a statement.
type Change struct {
	At     int // the place of its statement in the text, from 0; empty ones do not count
	Effect Effect
	Name   string // unquoted, cut off where Postgres does
}

// Changes returns the changes of a text in order, at most so many; temporary says that
// search_path makes tables without a schema temporary ones. What functions and DO blocks do is
// not seen. If it is in doubt where the statements are, because a quote is not closed or
// another setting of the server would read the text differently, the changes are those that
// leave something, without names and in the first place; so they are of a text with too many.
func Changes(text []byte, most int, temporary bool) []Change {
	r := changeReader{temporary: temporary}
	c := classifier{scanner: scanner{src: text}}
	flags := Flags(0)
	for {
		if c.nextStatement() {
			from := c.start
			c.statement()
			r.read(text[from:c.start])
			flags |= c.st.Flags
		}
		switch {
		case c.ambiguous || len(r.list) > most || c.tok == tokEOF && c.broken:
			return Leftovers(flags | Classify(text).Flags)
		case c.tok == tokEOF:
			return r.list
		}
	}
}

// Leftovers are the changes of a text of which only the flags are known.
func Leftovers(f Flags) (list []Change) {
	for _, d := range [...]struct {
		flag Flags
		does Effect
	}{{Listen, Listens}, {Prepare, Prepares}, {Temp, Creates}, {Cursor, Declares}, {Advisory, MayLock}, {Load, Loads}} {
		if f&d.flag != 0 {
			list = append(list, Change{Effect: d.does})
		}
	}
	return list
}

// changeReader reads the statements of a text, token by token.
type changeReader struct {
	list      []Change
	at        int // the statement
	temporary bool

	sc   scanner
	tok  token
	word string // of an unquoted one, folded
}

// read reads one statement, without its semicolon.
func (r *changeReader) read(text []byte) {
	r.sc = scanner{src: text}
	r.step()
	switch {
	case r.accept("listen"):
		r.add(Listens, r.name())
	case r.accept("unlisten"):
		r.add(Unlistens, r.name()) // "" for "*"
	case r.accept("prepare"):
		if !r.is("transaction") || r.peek() != tokString {
			r.add(Prepares, r.name())
		}
	case r.accept("deallocate"):
		r.deallocate()
	case r.accept("discard"):
		r.discard()
	case r.accept("declare"):
		r.declare()
	case r.accept("close"):
		r.remove(Closes)
	case r.accept("create"):
		r.create()
	case r.accept("drop"):
		r.drop()
	case r.accept("alter"):
		r.add(Alters, "")
	case r.accept("load"):
		r.add(Loads, "")
	case r.is("do"):
		r.at++
		return
	default:
		r.into()
	}
	r.locks(text)
	r.at++
}

func (r *changeReader) add(e Effect, name string) {
	r.list = append(r.list, Change{At: r.at, Effect: e, Name: name})
}

// step moves to the next token.
func (r *changeReader) step() {
	r.tok, r.word = r.sc.next(), ""
	if r.tok == tokWord {
		word := append([]byte(nil), r.sc.text()...)
		lower(word)
		r.word = string(word)
	}
}

// peek tells what the token behind the current one is.
func (r *changeReader) peek() token {
	sc := r.sc
	return sc.next()
}

// is reports whether the current token is the word.
func (r *changeReader) is(word string) bool { return r.word == word && r.tok == tokWord }

// accept steps over the words if all of them come next.
func (r *changeReader) accept(words ...string) bool {
	was := *r
	for _, w := range words {
		if !r.is(w) {
			*r = was
			return false
		}
		r.step()
	}
	return true
}

// longestName is how much of a name counts in Postgres, in bytes.
const longestName = 63

// name takes an identifier; "" if there is none.
func (r *changeReader) name() string {
	name := r.word
	switch r.tok {
	case tokWord:
	case tokQuoted:
		name = unquote(r.sc.text())
	default:
		return ""
	}
	r.step()
	return name[:min(len(name), longestName)]
}

// qualified takes a name with or without a schema.
func (r *changeReader) qualified() (schema, name string) {
	name = r.name()
	for r.tok == tokDot {
		r.step()
		schema, name = name, r.name()
	}
	return schema, name
}

// remove takes a name or ALL.
func (r *changeReader) remove(e Effect) {
	if r.accept("all") {
		r.add(e, "")
	} else if name := r.name(); name != "" {
		r.add(e, name)
	}
}

func (r *changeReader) deallocate() {
	if r.is("prepare") && r.peek() != tokEOF {
		r.step()
	}
	r.remove(Forgets)
}

func (r *changeReader) discard() {
	switch {
	case r.accept("all"):
		r.add(Discards, "")
	case r.accept("temp"), r.accept("temporary"):
		r.add(Drops, "")
	}
}

// declare reads DECLARE name ... CURSOR WITH HOLD FOR.
func (r *changeReader) declare() {
	name := r.name()
	for ; r.tok != tokEOF && !r.is("for"); r.step() {
		if r.accept("with", "hold") {
			r.add(Declares, name)
			return
		}
	}
}

// create reads CREATE of something that is temporary.
func (r *changeReader) create() {
	r.accept("or", "replace")
	_ = r.accept("local") || r.accept("global") || r.accept("unlogged")
	temp := r.accept("temp") || r.accept("temporary")
	r.accept("recursive")
	switch {
	case r.accept("table"), r.accept("view"), r.accept("sequence"), r.accept("foreign", "table"):
		r.accept("if", "not", "exists")
		schema, name := r.qualified()
		if (temp || isTemporary(schema) || schema == "" && r.temporary) && !r.dropped() {
			r.add(Creates, name)
		}
	case r.is("function"), r.is("procedure"), r.is("aggregate"), r.is("type"), r.is("domain"), r.is("operator"),
		r.is("collation"), r.is("conversion"), r.is("text"):
		r.step()
		r.accept("search")
		_ = r.accept("class") || r.accept("family") || r.accept("configuration") || r.accept("dictionary")
		if schema, _ := r.qualified(); isTemporary(schema) || schema == "" && r.temporary {
			r.add(Creates, "")
		}
	}
}

// dropped reports whether the rest says ON COMMIT DROP.
func (r *changeReader) dropped() bool {
	for ; r.tok != tokEOF; r.step() {
		if r.accept("on", "commit", "drop") {
			return true
		}
	}
	return false
}

// isTemporary reports whether a schema is that of temporary things.
func isTemporary(schema string) bool { return len(schema) >= 7 && schema[:7] == "pg_temp" }

// drop reads DROP of relations, with what it names.
func (r *changeReader) drop() {
	r.accept("foreign")
	if !r.accept("table") && !r.accept("view") && !r.accept("sequence") {
		return
	}
	r.accept("if", "exists")
	for {
		schema, name := r.qualified()
		if name != "" && (isTemporary(schema) || schema == "" && !r.temporary) {
			r.add(Drops, name)
		}
		if r.tok != tokComma {
			return
		}
		r.step()
	}
}

// into looks for SELECT ... INTO of something temporary.
func (r *changeReader) into() {
	if !r.is("select") && !r.is("with") && r.tok != tokOpen {
		return
	}
	for before := ""; r.tok != tokEOF; {
		word := r.word
		if before == "insert" || before == "merge" || !r.accept("into") {
			before = word
			r.step()
			continue
		}
		_ = r.accept("local") || r.accept("global") || r.accept("unlogged")
		temp := r.accept("temp") || r.accept("temporary")
		r.accept("table")
		if schema, name := r.qualified(); temp || isTemporary(schema) || schema == "" && r.temporary {
			r.add(Creates, name)
		}
		return
	}
}
