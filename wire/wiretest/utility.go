package wiretest

import (
	"fmt"

	"github.com/pgweir/pgweir/wire"
)

// utility executes a statement that returns no rows and returns its tag.
func (b *Backend) utility(x *execution) (string, *wire.Error) {
	st := x.st
	if st.isTx() {
		return b.control(st)
	}
	switch st.kind {
	case kInsert:
		b.effect(x, "", st.n)
		return fmt.Sprintf("%s %d", st.tag, st.n), nil
	case kFail:
		return "", newError(st.value, "forced failure %s", st.value)
	case kSleepFail:
		return "", newError("22012", "division by zero")
	case kNotice:
		b.notice(&wire.Error{Severity: "NOTICE", Code: "00000", Message: st.value})
	case kSet:
		return st.tag, b.assign(st)
	case kReset:
		if st.name == "" {
			b.set.resetAll()
			break
		}
		_, err := b.set.set(st.typed, nil, false)
		return st.tag, err
	case kSetTx:
		if b.tx.block == blockStarted {
			b.warn("25P01", "SET TRANSACTION can only be used in transaction blocks")
		}
		return st.tag, b.setModes(&st.modes)
	case kDiscard:
		return st.tag, b.discard(x)
	case kDeallocate:
		return st.tag, b.deallocate(st.name)
	case kCloseAll:
		clear(b.portals)
		if !x.simple { // the one that runs stays
			b.portals[x.name] = x.portal
		}
		b.closeCursor("")
	default:
		return st.tag, b.leave(st)
	}
	return st.tag, nil
}

// assign executes SET and SET LOCAL.
func (b *Backend) assign(st *stmt) *wire.Error {
	if st.local && b.tx.block == blockStarted {
		b.warn("25P01", "SET LOCAL can only be used in transaction blocks")
	}
	if g := findGUC(st.name); st.k > 1 && (g == nil || !g.list) {
		return newError("22023", "SET %s takes only one argument", st.typed)
	}
	value := &st.value
	if st.def {
		value = nil
	}
	_, err := b.set.set(st.typed, value, st.local)
	return err
}

// discard executes DISCARD ALL. The unnamed statement survives it: it is not
// among the prepared statements that SQL can see.
func (b *Backend) discard(x *execution) *wire.Error {
	switch {
	case b.tx.block == blockStarted && b.tx.pipelining:
		return newError("25001", "DISCARD ALL cannot be executed within a pipeline")
	case b.tx.block != blockStarted:
		return newError("25001", "DISCARD ALL cannot run inside a transaction block")
	}
	clear(b.portals)
	if !x.simple {
		b.portals[x.name] = x.portal
	}
	b.set.resetAll()
	b.deallocateAll()
	b.left = newLeft()
	return nil
}

func (b *Backend) deallocateAll() {
	for name := range b.prepared {
		if name != "" {
			delete(b.prepared, name)
		}
	}
}

func (b *Backend) deallocate(name string) *wire.Error {
	if name == "" {
		b.deallocateAll()
		return nil
	}
	if b.prepared[name] == nil {
		return newError("26000", "prepared statement \"%s\" does not exist", name)
	}
	delete(b.prepared, name)
	return nil
}
