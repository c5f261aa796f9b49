package wiretest

import (
	"strings"

	"github.com/pgweir/pgweir/wire"
)

// block is the state of the transaction, named after xact.c's.
type block uint8

const (
	blockNone     block = iota // no transaction
	blockStarted               // one command's own transaction
	blockImplicit              // several commands of one Query; see also ImplicitPipelines
	blockOpen                  // inside BEGIN
	blockFailed                // inside BEGIN, after an error
)

// mark is where a rollback leads to: the start of the transaction or a savepoint.
type mark struct {
	name           string // of the savepoint
	session, local values
	effects        int // length of tx.effects
	temp, cursors  values
	listens        int // length of left.listens
}

// tx is the transaction of a session.
type tx struct {
	block      block
	pipelining bool // an Execute has completed in this transaction
	readOnly   bool
	isolation  string
	snapshot   bool   // a statement has taken a snapshot
	marks      []mark // marks[0] is the start
	effects    []int  // indexes into the log of effects
}

// status returns what ReadyForQuery would say.
func (t *tx) status() byte {
	switch t.block {
	case blockNone, blockStarted:
		return wire.Idle
	case blockFailed:
		return wire.InFailed
	}
	return wire.InTransaction
}

// start makes sure that a command runs inside some transaction.
func (b *Backend) start() {
	switch {
	case b.tx.block == blockNone:
		b.tx.block = blockStarted
		b.tx.pipelining, b.tx.snapshot = false, false
		b.tx.readOnly, b.tx.isolation = false, "read committed"
		b.tx.marks = append(b.tx.marks[:0], b.mark(""))
	case b.o.ImplicitPipelines && b.tx.pipelining && b.tx.block == blockStarted:
		b.tx.block = blockImplicit
	}
}

// finish commits a transaction that was only one command's.
func (b *Backend) finish() {
	if b.tx.block == blockStarted {
		b.endTx(Committed)
	}
}

func (b *Backend) beginImplicit() {
	if b.tx.block == blockStarted {
		b.tx.block = blockImplicit
	}
}

func (b *Backend) endImplicit() {
	if b.tx.block == blockImplicit {
		b.tx.block = blockStarted
	}
}

func (b *Backend) mark(name string) mark {
	return mark{
		name: name, session: b.set.session, local: b.set.local, effects: len(b.tx.effects),
		temp: b.left.temp, cursors: b.left.cursors, listens: len(b.left.listens),
	}
}

// restore brings settings and effects back to a mark.
func (b *Backend) restore(m *mark) {
	b.set.session, b.set.local, b.set.dirty = m.session, m.local, true
	b.settle(m.effects, RolledBack)
	b.left.temp, b.left.cursors, b.left.listens = m.temp, m.cursors, b.left.listens[:m.listens]
}

// settle decides the effects from index from on.
func (b *Backend) settle(from int, state EffectState) {
	for _, i := range b.tx.effects[from:] {
		b.o.Effects.log[i].State = state
	}
	b.tx.effects = b.tx.effects[:from]
}

// endTx ends the whole transaction.
func (b *Backend) endTx(state EffectState) {
	if state == RolledBack {
		b.restore(&b.tx.marks[0])
	} else {
		b.settle(0, Committed)
		b.left.commit()
		if b.set.local != nil {
			b.set.local, b.set.dirty = nil, true
		}
	}
	b.tx.block = blockNone
	b.tx.pipelining = false
	b.tx.marks = b.tx.marks[:0]
	clear(b.portals)
}

// abort is what an error does to the transaction.
func (b *Backend) abort() {
	switch b.tx.block {
	case blockStarted, blockImplicit:
		b.endTx(RolledBack)
	case blockOpen:
		b.tx.block = blockFailed
		b.restore(&b.tx.marks[len(b.tx.marks)-1])
		for _, p := range b.portals {
			if p.level == len(b.tx.marks) {
				p.failed = true
			}
		}
	}
}

// control executes a statement that controls transactions. Its tag is st.tag
// unless another is returned.
func (b *Backend) control(st *stmt) (tag string, err *wire.Error) {
	switch st.kind {
	case kBegin:
		if b.tx.block == blockOpen {
			b.warn("25001", "there is already a transaction in progress")
			return st.tag, b.setModes(&st.modes)
		}
		// An error in the modes takes the transaction along: it never opened.
		if err := b.setModes(&st.modes); err != nil {
			return "", err
		}
		b.tx.block = blockOpen
	case kCommit:
		return b.commit(st)
	case kRollback:
		return st.tag, b.rollback(st)
	case kSavepoint:
		if b.tx.block != blockOpen {
			return "", outsideBlock("SAVEPOINT")
		}
		b.tx.marks = append(b.tx.marks, b.mark(st.name))
	case kRelease:
		return st.tag, b.release(st.name)
	case kRollbackTo:
		return st.tag, b.rollbackTo(st.name)
	}
	return st.tag, nil
}

// setModes changes the modes of the transaction, some of which are settled by
// its first snapshot.
func (b *Backend) setModes(m *txModes) *wire.Error {
	t := &b.tx
	if m.isolation != "" && m.isolation != t.isolation {
		switch {
		case t.snapshot:
			return newError("25001", "SET TRANSACTION ISOLATION LEVEL must be called before any query")
		case len(t.marks) > 1:
			return newError("25001", "SET TRANSACTION ISOLATION LEVEL must not be called in a subtransaction")
		}
		t.isolation = m.isolation
	}
	if m.deferrable && t.snapshot {
		return newError("25001", "SET TRANSACTION [NOT] DEFERRABLE must be called before any query")
	}
	switch {
	case m.access == "read only":
		t.readOnly = true
	case m.access == "read write" && t.readOnly && t.snapshot:
		return newError("25001", "transaction read-write mode must be set before any query")
	case m.access == "read write":
		t.readOnly = false
	}
	return nil
}

func (b *Backend) commit(st *stmt) (string, *wire.Error) {
	switch b.tx.block {
	case blockStarted, blockImplicit:
		if st.chain {
			return "", outsideBlock("COMMIT AND CHAIN")
		}
		b.warn("25P01", "there is no transaction in progress")
		b.endTx(Committed)
	case blockFailed:
		b.endTx(RolledBack)
		b.chain(st)
		return "ROLLBACK", nil
	case blockOpen:
		b.endTx(Committed)
		b.chain(st)
	}
	return st.tag, nil
}

func (b *Backend) rollback(st *stmt) *wire.Error {
	if b.tx.block == blockStarted || b.tx.block == blockImplicit {
		if st.chain {
			return outsideBlock("ROLLBACK AND CHAIN")
		}
		b.warn("25P01", "there is no transaction in progress")
	}
	b.endTx(RolledBack)
	b.chain(st)
	return nil
}

// chain opens the transaction that AND CHAIN asks for, with the modes of the
// one that ended.
func (b *Backend) chain(st *stmt) {
	if st.chain {
		readOnly, isolation := b.tx.readOnly, b.tx.isolation
		b.start()
		b.tx.block, b.tx.readOnly, b.tx.isolation = blockOpen, readOnly, isolation
	}
}

// savepoint finds the latest savepoint with the name.
func (b *Backend) savepoint(name string) (int, *wire.Error) {
	for i := len(b.tx.marks) - 1; i > 0; i-- {
		if b.tx.marks[i].name == name {
			return i, nil
		}
	}
	return 0, newError("3B001", "savepoint \"%s\" does not exist", name)
}

func (b *Backend) release(name string) *wire.Error {
	if b.tx.block != blockOpen {
		return outsideBlock("RELEASE SAVEPOINT")
	}
	i, err := b.savepoint(name)
	if err != nil {
		return err
	}
	b.tx.marks = b.tx.marks[:i]
	for _, p := range b.portals {
		p.level = min(p.level, i)
	}
	return nil
}

func (b *Backend) rollbackTo(name string) *wire.Error {
	if b.tx.block != blockOpen && b.tx.block != blockFailed {
		return outsideBlock("ROLLBACK TO SAVEPOINT")
	}
	i, err := b.savepoint(name)
	if err != nil {
		return err
	}
	b.restore(&b.tx.marks[i])
	b.tx.marks = b.tx.marks[:i+1]
	b.tx.block = blockOpen
	for key, p := range b.portals {
		if p.level > i {
			delete(b.portals, key)
		}
	}
	return nil
}

func outsideBlock(what string) *wire.Error {
	return newError("25P01", "%s can only be used in transaction blocks", strings.ToUpper(what))
}
