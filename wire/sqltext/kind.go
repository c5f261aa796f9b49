package sqltext

import "strings"

// Kind says what a whole text is. Every kind but Other and Empty means exactly
// one statement, alone in the text but for comments and semicolons.
type Kind uint8

// The kinds of text.
const (
	Other         Kind = iota // anything else, presumed to write
	Empty                     // nothing but white space, comments and semicolons
	Begin                     // BEGIN or START TRANSACTION, grammar-checked to the end
	Commit                    // COMMIT or END, without AND CHAIN
	Rollback                  // ROLLBACK or ABORT, without AND CHAIN; not PREPARED
	Discard                   // DISCARD ALL
	DeallocateAll             // DEALLOCATE [PREPARE] ALL
	Deallocate                // DEALLOCATE [PREPARE] name
	Set                       // SET [SESSION] name = value, also TIME ZONE, NAMES, SCHEMA, ROLE, SESSION AUTHORIZATION and CHARACTERISTICS
	Reset                     // RESET name; RESET ALL has the name "all"
	Show                      // SHOW name; SHOW ALL has the name "all"
	Probe                     // SELECT integer, the health check of drivers
	Read                      // a statement known to read; functions are presumed to read
	SetLocal                  // SET LOCAL name = value, in the forms of Set
	CommitChain               // COMMIT or END, with AND CHAIN: the next transaction has begun
	RollbackChain             // ROLLBACK or ABORT, with AND CHAIN
	RollbackTo                // ROLLBACK TO savepoint; it and the next are all kinds about savepoints
	Savepoint                 // SAVEPOINT name
	Release                   // RELEASE savepoint
)

var kindNames = [...]string{
	Other: "other", Empty: "empty", Begin: "begin", Commit: "commit", Rollback: "rollback",
	Discard: "discard", DeallocateAll: "deallocate_all", Deallocate: "deallocate", Set: "set",
	Reset: "reset", Show: "show", Probe: "probe", Read: "read", SetLocal: "set_local",
	CommitChain: "commit_chain", RollbackChain: "rollback_chain", RollbackTo: "rollback_to",
	Savepoint: "savepoint", Release: "release",
}

// String returns a lower-case label of the kind, "unknown" outside the list.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "unknown"
}

// Flags tell what some statement of the text does, in whatever position. They
// are conservative: a clear bit is a promise, a set bit a possibility.
type Flags uint16

// The flags.
const (
	// Multi: more than one statement that is not empty.
	Multi Flags = 1 << iota
	// Session: settings of the session may change: SET (but not LOCAL,
	// TRANSACTION and CONSTRAINTS), RESET, DISCARD ALL, set_config whose third
	// argument is not the word true, a write to pg_settings, any DO block.
	Session
	// Temp: a temporary relation is created or named.
	Temp
	// Listen: LISTEN.
	Listen
	// Prepare: PREPARE of a statement (not PREPARE TRANSACTION), or EXECUTE, of which
	// it is not known what it runs.
	Prepare
	// Cursor: DECLARE ... WITH HOLD.
	Cursor
	// Advisory: a session-level advisory lock function is named.
	Advisory
	// EndsTx: COMMIT, END, ROLLBACK, ABORT or PREPARE TRANSACTION is a
	// statement of the text, which must therefore never be cancelled.
	EndsTx
	// Copy: a statement starts with COPY.
	Copy
	// Dealloc: a text of several statements, or a DO block, has a DISCARD or
	// DEALLOCATE in it.
	Dealloc
	// PlainBegin: the kind is Begin and no server could refuse its options:
	// none, READ ONLY, or an isolation level below SERIALIZABLE.
	PlainBegin
	// Writes: some statement is neither known to read nor transaction control,
	// settings or the dropping of prepared statements.
	Writes
	// Locks: row locks are asked for: FOR [NO KEY] UPDATE, FOR [KEY] SHARE.
	Locks
	// Start: a Begin that is spelled START TRANSACTION, which is its tag too.
	Start
	// Savepoints: a text of several statements has SAVEPOINT, RELEASE or ROLLBACK TO among
	// them. See Steps.
	Savepoints
	// Load: LOAD of a library.
	Load
)

var flagNames = [...]string{
	"multi", "session", "temp", "listen", "prepare", "cursor", "advisory",
	"ends_tx", "copy", "dealloc", "plain_begin", "writes", "locks", "start", "savepoints", "load",
}

// String lists the set flags, joined by "|"; "" when there is none.
func (f Flags) String() string {
	var names []string
	for i, name := range flagNames {
		if f&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, "|")
}

// Statement is the answer of Classify. It is comparable and refers to the
// text by offsets only.
type Statement struct {
	Kind  Kind
	Flags Flags

	alias      alias
	nameStart  uint32
	nameEnd    uint32
	valueStart uint32
	valueEnd   uint32
	comments   uint32
}

// Comments is how many bytes at the end of the text are comments, for [Tags]: 0 if it does
// not end in a block comment. Without them the text does the same. Semicolons between and
// behind those comments belong to them. An optimiser hint (a block comment that begins with a
// plus sign) is no tag and stays, and so do the comments of a text whose end is in doubt: a
// quote is not closed, or another setting of the server would read it differently.
func (s Statement) Comments() int { return int(s.comments) }
