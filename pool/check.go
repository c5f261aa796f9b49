package pool

import (
	"fmt"

	"github.com/pgweir/pgweir/admission"
)

// Check verifies the set's invariants by walking over everything, for tests
// and the simulation; it is not for the hot path. It holds between any two
// calls.
func (s *Set) Check() error {
	if s.total() > s.ceiling {
		return fmt.Errorf("pool: %d places taken, %d allowed", s.total(), s.ceiling)
	}
	if s.ordinary > s.most {
		return fmt.Errorf("pool: %d places of ordinary keys, %d allowed", s.ordinary, s.most)
	}
	var c census
	c.keys = make([]keyState, len(s.keys))
	for slot, sv := range s.places {
		if sv == nil {
			continue
		}
		if err := c.add(slot, sv); err != nil {
			return fmt.Errorf("pool: %w", err)
		}
	}
	if c.ordinary != s.ordinary || c.leaving != s.leaving {
		return fmt.Errorf("pool: counted %d ordinary, %d of these leave, kept %d, %d", c.ordinary, c.leaving, s.ordinary, s.leaving)
	}
	if c.count != s.count || c.held != s.held || c.heirs != s.heirs {
		return fmt.Errorf("pool: counted %v with %d held and %d heirs, kept %v, %d, %d",
			c.count, c.held, c.heirs, s.count, s.held, s.heirs)
	}
	if taken := len(s.places) - len(s.vacant); taken != s.total() {
		return fmt.Errorf("pool: %d slots taken by %d servers", taken, s.total())
	}
	if err := s.checkIdle(); err != nil {
		return fmt.Errorf("pool: %w", err)
	}
	if err := s.checkKeys(&c); err != nil {
		return fmt.Errorf("pool: %w", err)
	}
	return s.checkQuotas()
}

// checkQuotas verifies how many servers are counted to each quota.
func (s *Set) checkQuotas() error {
	fresh := make([]quotaCount, len(s.quotas))
	for _, sv := range s.places {
		if sv == nil {
			continue
		}
		for _, q := range s.keys[sv.Key].quotas {
			if q.ID > 0 {
				fresh[q.ID].taken++
				if sv.state == Closing {
					fresh[q.ID].leaving++
				}
			}
		}
	}
	for id := range fresh {
		if fresh[id] != s.quotas[id] {
			return fmt.Errorf("pool: quota %d: counted %+v, kept %+v", id, fresh[id], s.quotas[id])
		}
	}
	return nil
}

// census is a fresh count of everything.
type census struct {
	count       [states]int
	held, heirs int
	ordinary    int
	leaving     int
	keys        []keyState
}

func (c *census) add(slot int, sv *Server) error {
	switch {
	case int(uint16(sv.ID)) != slot || sv.ID>>16 == 0:
		return fmt.Errorf("server %#x is in slot %d", sv.ID, slot)
	case sv.state >= Gone:
		return fmt.Errorf("server %#x holds a place and is %v", sv.ID, sv.state)
	case sv.state == Idle && (sv.holds > 0 || sv.doomed || sv.hasHeir):
		return fmt.Errorf("server %#x is idle: %d holds, doomed %v, heir %v", sv.ID, sv.holds, sv.doomed, sv.hasHeir)
	case sv.parked && (sv.state != Busy || sv.holds == 0):
		return fmt.Errorf("server %#x is parked, %v, %d holds", sv.ID, sv.state, sv.holds)
	case sv.holds < 0:
		return fmt.Errorf("server %#x has %d holds", sv.ID, sv.holds)
	}
	c.count[sv.state]++
	c.keys[sv.Key].count[sv.state]++
	if !sv.reserved {
		c.ordinary++
		if sv.state == Closing {
			c.leaving++
		}
	}
	if sv.holds > 0 {
		c.held++
	}
	if sv.hasHeir {
		c.heirs++
		c.keys[sv.heir].promised++
	}
	return nil
}

// checkIdle verifies the list of the idle and the keys' stacks.
func (s *Set) checkIdle() error {
	n := 0
	var older *Server
	for sv := s.idle.oldest; sv != nil; sv = sv.newer {
		if sv.state != Idle || sv.older != older || older != nil && older.since > sv.since {
			return fmt.Errorf("the list of the idle is broken at server %#x, %v", sv.ID, sv.state)
		}
		older, n = sv, n+1
	}
	if s.idle.newest != older || n != s.count[Idle] {
		return fmt.Errorf("%d in the list of the idle, %d idle", n, s.count[Idle])
	}
	for k := range s.keys {
		n := 0
		var above *Server
		for sv := s.keys[k].top; sv != nil; sv = sv.below {
			if sv.state != Idle || sv.above != above || int(sv.Key) != k {
				return fmt.Errorf("key %d: stack broken at server %#x of key %d, %v", k, sv.ID, sv.Key, sv.state)
			}
			above, n = sv, n+1
		}
		if n != s.keys[k].count[Idle] {
			return fmt.Errorf("key %d: %d in its stack, %d idle", k, n, s.keys[k].count[Idle])
		}
	}
	return nil
}

// checkKeys verifies the keys' counts and in which list each of them is.
func (s *Set) checkKeys(c *census) error {
	useful, several := 0, 0
	for k := range s.keys {
		e, fresh := &s.keys[k], &c.keys[k]
		if e.staying() >= 2 {
			several++
		}
		if e.count != fresh.count || e.promised != fresh.promised {
			return fmt.Errorf("key %d: counted %v and %d promised, kept %v, %d", k, fresh.count, fresh.promised, e.count, e.promised)
		}
		unserved, coming := max(e.demand-e.count[Idle], 0), e.count[Dialling]+e.promised
		if e.useful != min(unserved, coming) {
			return fmt.Errorf("key %d: %d useful of %d for %d", k, e.useful, coming, unserved)
		}
		below := e.staying()+e.promised < e.minimum
		switch {
		case (e.list != listNone) != (unserved > coming || below):
			return fmt.Errorf("key %d: %d unserved, %d coming, below its minimum %v, in list %d", k, unserved, coming, below, e.list)
		case e.list == listReserved && !e.reserved, e.reserved && (e.list == listBare || e.list == listWanting):
			return fmt.Errorf("key %d: may fill the reserve %v, in list %d", k, e.reserved, e.list)
		case e.list == listMinimum && unserved > coming:
			return fmt.Errorf("key %d: %d unserved, %d coming, but it counts as if nobody waited", k, unserved, coming)
		}
		useful += e.useful
	}
	if useful != s.useful || several != s.several {
		return fmt.Errorf("%d useful, %d keys with several, kept %d, %d", useful, several, s.useful, s.several)
	}
	return s.checkLists()
}

func (s *Set) checkLists() error {
	for id := listBare; id < lists; id++ {
		n, prev := 0, int32(0)
		for i := s.lists[id].first; i != 0; i = s.keys[i-1].next {
			if e := &s.keys[i-1]; e.list != id || e.prev != prev {
				return fmt.Errorf("list %d is broken at key %d", id, admission.Key(i-1))
			}
			prev, n = i, n+1
		}
		if n != s.lists[id].n || s.lists[id].last != prev {
			return fmt.Errorf("list %d: %d keys, counted %d", id, n, s.lists[id].n)
		}
	}
	return nil
}
