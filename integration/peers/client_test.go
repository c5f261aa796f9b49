package main

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
)

// transcript is what a server sends for a query of two rows.
func transcript(t *testing.T, messages ...pgproto3.BackendMessage) []byte {
	t.Helper()
	var b []byte
	for _, m := range messages {
		var err error
		if b, err = m.Encode(b); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func TestAnswerIsFollowedWhateverTheSplits(t *testing.T) {
	row := &pgproto3.DataRow{Values: [][]byte{[]byte("Z\x00\x00\x00\x05I"), nil}}
	b := transcript(t, &pgproto3.ParseComplete{}, &pgproto3.BindComplete{}, row, row,
		&pgproto3.CommandComplete{CommandTag: []byte("SELECT 2")}, &pgproto3.ReadyForQuery{TxStatus: 'I'})
	random := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		var a answer
		for rest := b; len(rest) > 0; {
			if a.ready {
				t.Fatalf("ready with %d bytes to come", len(rest))
			}
			n := 1 + random.IntN(len(rest))
			if err := a.feed(slices.Clone(rest[:n])); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if !a.ready || a.err != nil {
			t.Fatalf("in the end: %+v", a)
		}
	}
}

func TestAnswerKeepsTheFirstError(t *testing.T) {
	b := transcript(t,
		&pgproto3.ErrorResponse{Severity: "ERROR", Code: "53300", Message: "too many"},
		&pgproto3.ErrorResponse{Severity: "ERROR", Code: "XX000", Message: "later"},
		&pgproto3.ReadyForQuery{TxStatus: 'I'})
	var a answer
	for i := range b {
		if err := a.feed(b[i : i+1]); err != nil {
			t.Fatal(err)
		}
	}
	if !a.ready || a.err == nil || !strings.Contains(a.err.Error(), "53300: too many") {
		t.Errorf("%+v", a)
	}
	if err := a.feed([]byte{'Z', 0, 0, 0, 3}); err == nil {
		t.Error("a length below 4 is accepted")
	}
}
