package wiretest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pgweir/pgweir/wire"
)

// left is what a session leaves behind its transactions, beside settings and statements.
type left struct {
	channels      map[string]bool
	listens       []listen // of the transaction
	temp, cursors values   // temp: "drop" = on commit
	locks         map[int]int
}

// listen is LISTEN or UNLISTEN; name "" is all.
type listen struct {
	name string
	on   bool
}

func newLeft() left { return left{channels: map[string]bool{}, locks: map[int]int{}} }

// commit ends the transaction.
func (l *left) commit() {
	for _, c := range l.listens {
		switch {
		case c.on:
			l.channels[c.name] = true
		case c.name == "":
			clear(l.channels)
		default:
			delete(l.channels, c.name)
		}
	}
	l.listens = nil
	for name, how := range l.temp {
		if how == "drop" {
			l.temp = l.temp.without(name)
		}
	}
}

// leave executes a statement that leaves something, or takes it away.
func (b *Backend) leave(st *stmt) *wire.Error {
	l := &b.left
	switch st.kind {
	case kListen, kUnlisten:
		l.listens = append(l.listens, listen{st.name, st.kind == kListen})
	case kPrepare:
		if b.prepared[st.name] != nil {
			return newError("42P05", "prepared statement \"%s\" already exists", st.name)
		}
		b.prepared[st.name] = &statement{st: &stmt{kind: kSelect, tag: "SELECT", n: st.n}, sql: true}
	case kTemp:
		if _, ok := l.temp[st.name]; ok {
			return newError("42P07", "relation \"%s\" already exists", st.name)
		}
		l.temp = l.temp.with(st.name, map[bool]string{true: "drop", false: ""}[st.local])
	case kDrop:
		if _, ok := l.temp[st.name]; !ok && st.name != "" {
			return newError("42P01", "table \"%s\" does not exist", st.name)
		}
		l.temp = l.temp.without(st.name)
		if st.name == "" {
			l.temp = nil
		}
	case kDeclare:
		if _, ok := l.cursors[st.name]; ok {
			return newError("42P03", "cursor \"%s\" already exists", st.name)
		}
		l.cursors = l.cursors.with(st.name, "")
	case kClose:
		if _, ok := l.cursors[st.name]; !ok {
			return newError("34000", "cursor \"%s\" does not exist", st.name)
		}
		b.closeCursor(st.name)
	}
	return nil
}

// closeCursor drops a cursor, or all; no rollback brings it back.
func (b *Backend) closeCursor(name string) {
	drop := func(v values) values {
		if name == "" {
			return nil
		}
		return v.without(name)
	}
	b.left.cursors = drop(b.left.cursors)
	for i := range b.tx.marks {
		b.tx.marks[i].cursors = drop(b.tx.marks[i].cursors)
	}
}

// unlockAll gives back all advisory locks.
const unlockAll = "pg_advisory_unlock_all"

// lockNames are the functions of advisory locks that the fake knows.
var lockNames = []string{"pg_advisory_lock", "pg_try_advisory_lock", "pg_advisory_unlock", unlockAll}

// lockBool reports whether a function answers with a boolean.
func lockBool(name string) bool { return name != "pg_advisory_lock" && name != unlockAll }

// othersLock is the first number of the locks that somebody else has, for ever.
const othersLock = 5

// lock executes a function of advisory locks, and returns what it answers.
func (b *Backend) lock(st *stmt) []byte {
	l := b.left.locks
	switch st.name {
	case unlockAll:
		clear(l)
		return []byte{}
	case "pg_advisory_lock":
		l[st.n]++
		return []byte{}
	case "pg_try_advisory_lock":
		if st.n >= othersLock {
			return []byte("f")
		}
		l[st.n]++
		return []byte("t")
	}
	if l[st.n] == 0 {
		b.warn("01000", "you don't own a lock of type ExclusiveLock")
		return []byte("f")
	}
	if l[st.n]--; l[st.n] == 0 {
		delete(l, st.n)
	}
	return []byte("t")
}

// Left returns what the session has left behind its transactions so far, beside settings and
// the statements of the protocol; "" if there is nothing.
func (b *Backend) Left() string {
	var list []string
	for name, p := range b.prepared {
		if p.sql {
			list = append(list, "prepared "+name)
		}
	}
	for name := range b.left.channels {
		list = append(list, "listens "+name)
	}
	for name := range b.left.temp {
		list = append(list, "temp "+name)
	}
	for name := range b.left.cursors {
		list = append(list, "cursor "+name)
	}
	for _, n := range slices.Sorted(maps.Keys(b.left.locks)) {
		list = append(list, fmt.Sprintf("lock %d", n))
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}
