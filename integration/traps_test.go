package integration

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// conversations says that sequences of integration/parity/testdata are about a trap: they
// name it by a line "% trap N".
const conversations = "conversations"

// trap is something of the wire protocol into which a pooler has fallen.
type trap struct {
	number int
	rule   string
	// tests are those that are about it: conversations, or the package and name of a Go test
	// whose comment names the trap by its number.
	tests []string
	open  string // what of it is not there yet
}

// traps are all that are known of the peers, by the numbers that tests name them by.
func traps() []trap {
	const (
		hostile = "integration/hostile "
		whole   = "integration "
		session = "cmd/internal/session "
		login   = "cmd/internal/login "
		seeds   = "cmd/internal/sim TestSeeds"
	)
	return []trap{
		{1, "several Syncs and Queries in flight: a server is free when all have had their ReadyForQuery", []string{conversations, seeds}, ""},
		{2, "after an error all is skipped up to the Sync, also answers of the pooler's own", []string{conversations, seeds}, ""},
		{3, "answers of the pooler's own stand in their place among real ones", []string{conversations, seeds}, ""},
		{4, "Flush without Sync", []string{conversations, seeds}, ""},
		{5, "a Query in a part that is skipped is not answered", []string{conversations, seeds}, ""},
		{6, "Terminate behind requests that must still run", []string{conversations}, ""},
		{7, "names of prepared statements: renamed, unknown, taken, of a failed Parse", []string{conversations}, ""},
		{8, "one text, another role, search_path or type: another statement", []string{conversations}, ""},
		{9, "a statement is driven out while it is in use", []string{conversations}, ""},
		{10, "DEALLOCATE ALL, DISCARD ALL, and names that come later in the pipeline", []string{conversations}, ""},
		{11, "DEALLOCATE of a name, PREPARE and EXECUTE by SQL", []string{conversations}, ""},
		{12, "cached plan must not change result type", []string{conversations, whole + "TestPreparedStatementHealed"}, ""},
		{13, "the unnamed statement over two transactions", []string{conversations}, ""},
		{14, "descriptions must not be remembered", []string{conversations}, ""},
		{15, "an error while waiting for a server: at once, then skip to the Sync; ERROR if the session goes on", []string{session + "TestRefusalsInEveryProtocol", whole + "TestRefusalKeepsTheSession"}, ""},
		{16, "one FATAL when a server dies, not two", []string{conversations, session + "TestNothingFollowsTheLastWord", hostile + "TestServersThatLie"}, ""},
		{17, "row limits, suspended portals, WITH HOLD", []string{conversations}, ""},
		{18, "what is up to one Sync, or in one Query, is one transaction", []string{conversations}, ""},
		{19, "COPY FROM STDIN fails while the data is on its way", []string{conversations}, ""},
		{20, "COPY with Flush and Sync, COPY both ways", []string{conversations}, ""},
		{21, "FunctionCall", []string{conversations}, ""},
		{22, "versions and options of the protocol that are not known", []string{conversations}, ""},
		{23, "cancel keys of 4 to 256 bytes", []string{conversations, hostile + "TestHostileOpenings"}, ""},
		{24, "bytes in clear around a request for encryption", []string{
			conversations, login + "TestClearTextBehindARequest", hostile + "TestHostileOpenings", hostile + "TestCVE20213935", hostile + "TestCVE202123222",
		}, ""},
		{25, "requests for encryption: each once, GSSAPI is declined", []string{conversations, hostile + "TestHostileOpenings"}, ""},
		{26, "direct TLS needs ALPN", []string{whole + "TestDirectTLS"}, ""},
		{27, "the startup packet: in pieces, too long, too slow, without its end", []string{conversations, hostile + "TestHostileOpenings", hostile + "TestSlowOpenings"}, ""},
		{28, "who asked for TLS is refused inside TLS", []string{login + "TestAcceptRefusesInsideTLS"}, ""},
		{29, "lengths in messages of a login, from both sides", []string{hostile + "TestCVE20266664", hostile + "TestCVE20266665"}, ""},
		{30, "an error of the server without a SQLSTATE", []string{hostile + "TestCVE20266666"}, ""},
		{31, "parameters of a client do not reach the connection that authenticates it", []string{conversations, whole + "TestAuthQueryGivesNothingToTheClient"}, ""},
		{32, "VALID UNTIL holds with auth_query", []string{whole + "TestAuthQuery"}, ""},
		{33, "who may look may not end clients", []string{hostile + "TestCVE20266667"}, ""},
		{34, "a cancel meets the statement that is meant, or none", []string{conversations, session + "TestManyCancels", hostile + "TestFloodOfCancels"}, ""},
		{35, "a client that waits can be cancelled", []string{whole + "TestPsqlCancelOfAWaitingStatement", whole + "TestPgxCancelOfAWaitingStatement"}, ""},
		{36, "floods of cancels hold no place and are bounded", []string{hostile + "TestFloodOfCancels"}, ""},
		{37, "settings follow their client, by what servers report", []string{conversations}, ""},
		{38, "the welcome after an upgrade or a failover", []string{hostile + "TestWelcomeAfterAnUpgrade"}, ""},
		{39, "what a server says while nobody asked", []string{conversations, hostile + "TestIdleServersThatTalk"}, ""},
		{40, "a server dies between its grant and its first byte", []string{session + "TestServersThatEndAtOnce"}, ""},
		{41, "a backend that is terminated is no failover", []string{conversations}, ""},
		{42, "FATAL after AuthenticationOk frees the slot", []string{hostile + "TestLoginsThatLie"}, ""},
		{43, "messages are known by their frame", []string{conversations, seeds, hostile + "TestServersThatDieAtEachByte"}, ""},
		{44, "one writer for each server: nothing comes into the middle of a client's message", []string{seeds}, ""},
		{45, "a server is not released too early", []string{conversations, seeds}, ""},
		{46, "a client is gone in the middle: cancel, drain, reuse; the slot is taken until then", []string{conversations, whole + "TestStatementsOfVanishedClientsAreCancelled", hostile + "TestServersWithoutEnd"}, ""},
		{47, "a timer of statements does not fire between them, and cancels before it ends anything", []string{session + "TestWhatADeadlineStops", whole + "TestCeilings"}, ""},
		{48, "a failed transaction that stays open is bounded", []string{whole + "TestCeilings"}, ""},
		{49, "a BEGIN that is answered before there is a server", []string{conversations}, ""},
		{50, "state of a session leaks to the next", []string{conversations, whole + "TestTracesOfHostileClients"}, ""},
		{51, "options=-c and its escapes", []string{conversations}, ""},
		{52, "replication connections are never pooled", []string{whole + "TestReplication", hostile + "TestHostileOpenings"}, ""},
		{53, "SQLSTATEs that say what it is", []string{session + "TestContract"}, ""},
		{54, "cancel connections on which something follows, or that stay open", []string{conversations, hostile + "TestFloodOfCancels"}, ""},
		{55, "out of descriptors", []string{whole + "TestOutOfDescriptors"}, ""},
		{56, "large rows are streamed", []string{conversations, hostile + "TestServersWithoutEnd"}, ""},
		{57, "the network swallows everything", []string{whole + "TestBlackHole"}, ""},
	}
}

// trapsIn finds the numbers behind the word trap in a text.
func trapsIn(text string) (list []int) {
	for _, m := range regexp.MustCompile(`\b[Tt]raps? (\d+(?:(?:,? and |, )\d+)*)`).FindAllStringSubmatch(strings.Join(strings.Fields(strings.ReplaceAll(text, "//", " ")), " "), -1) {
		for _, digits := range regexp.MustCompile(`\d+`).FindAllString(m[1], -1) {
			n, _ := strconv.Atoi(digits) // digits
			list = append(list, n)
		}
	}
	return list
}

// Every trap has tests that name it, and every test that names one is in the table.
func TestEveryTrapHasATest(t *testing.T) {
	names := make(map[string][]int) // of Go tests: the traps that their comments name
	for _, s := range sources(t, token.NewFileSet(), root(t)) {
		for _, decl := range s.tree.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if ok && s.isTest() && strings.HasPrefix(f.Name.Name, "Test") {
				names[filepath.ToSlash(filepath.Dir(s.path))+" "+f.Name.Name] = trapsIn(f.Doc.Text())
			}
		}
	}
	talked := conversationsOf(t)
	covered := make(map[string]bool)
	for i, trap := range traps() {
		if trap.number != i+1 || trap.rule == "" || len(trap.tests) == 0 {
			t.Errorf("row %d is %+v", i+1, trap)
		}
		for _, test := range trap.tests {
			numbers, known := names[test]
			switch {
			case test == conversations && talked[trap.number] == 0:
				t.Errorf("trap %d: no conversation names it", trap.number)
			case test == conversations:
			case !known:
				t.Errorf("trap %d: there is no test %s", trap.number, test)
			case !slices.Contains(numbers, trap.number):
				t.Errorf("trap %d: the comment of %s does not name it", trap.number, test)
			}
			covered[test+" "+strconv.Itoa(trap.number)] = true
		}
		if talked[trap.number] > 0 && !slices.Contains(trap.tests, conversations) {
			t.Errorf("trap %d: %d conversations name it", trap.number, talked[trap.number])
		}
	}
	if n := len(traps()); n != 57 {
		t.Errorf("%d traps", n)
	}
	for test, numbers := range names {
		for _, n := range numbers {
			if !covered[test+" "+strconv.Itoa(n)] {
				t.Errorf("%s names trap %d, which does not name it", test, n)
			}
		}
	}
}

// conversationsOf counts the sequences that name each trap.
func conversationsOf(t *testing.T) map[int]int {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("parity", "testdata", "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatal(err, files)
	}
	count := make(map[int]int)
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(b)) {
			list, ok := strings.CutPrefix(line, "% trap ")
			for _, word := range strings.Fields(list) {
				n, err := strconv.Atoi(word)
				if ok && err != nil {
					t.Errorf("%s: %q", file, line)
				} else if ok {
					count[n]++
				}
			}
		}
	}
	return count
}

func TestTrapsAreFoundInComments(t *testing.T) {
	for text, want := range map[string][]int{
		"": nil, "no trap at all": nil, "Trap 7.": {7}, "It is one. Traps 1, 22\nand 3": {1, 22, 3}, "the trapdoor 5": nil,
	} {
		if got := trapsIn(text); !slices.Equal(got, want) {
			t.Errorf("%q names %v, want %v", text, got, want)
		}
	}
}
