package login

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/pgweir/pgweir/wire/scram"
)

// Bounds of an auth_file.
const (
	maxLine     = 128 * 1024 // bytes
	maxUser     = 127        // bytes of a user name
	maxPassword = 65535      // bytes of a secret
)

// Problem is a line of an auth_file that is not as it should be.
type Problem struct {
	Line int    // from 1
	Text string // never quotes a secret
}

// String returns the problem with its line.
func (p Problem) String() string { return fmt.Sprintf("line %d: %s", p.Line, p.Text) }

// ParseAuthFile reads PgBouncer's userlist.txt: one user a line,
//
//	"user" "secret"
//
// with a quote inside quotes doubled. The secret is a password, "md5" with 32
// hexadecimal digits, or a SCRAM verifier as Postgres stores it; empty means
// that the user cannot log in with a password. Empty lines and lines that begin
// with ';' or '#' are skipped, and so is what follows the secret, where old files
// have a third column. A line with a problem defines no user; reading goes on.
func ParseAuthFile(r io.Reader) (map[string]Secret, []Problem) {
	users := make(map[string]Secret)
	at := make(map[string]int)
	var problems []Problem
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	number := 0
	for lines.Scan() {
		number++
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == ';' || line[0] == '#' {
			continue
		}
		user, secret, err := parseUser(line)
		if err != "" {
			problems = append(problems, Problem{number, err})
			continue
		}
		if first, twice := at[user]; twice {
			problems = append(problems, Problem{number, fmt.Sprintf("user %q again, first on line %d: this line counts", user, first)})
		}
		users[user], at[user] = secret, number
	}
	if err := lines.Err(); err != nil {
		problems = append(problems, Problem{number + 1, "cannot be read: " + err.Error()})
	}
	return users, problems
}

// parseUser reads a line; problem is empty if it has none.
func parseUser(line string) (user string, s Secret, problem string) {
	user, rest, ok := quoted(line)
	switch {
	case !ok:
		return "", s, "no user name in double quotes"
	case user == "":
		return "", s, "empty user name"
	case len(user) > maxUser:
		return "", s, "user name too long"
	case strings.ContainsRune(user, 0):
		return "", s, "zero byte in the user name"
	}
	secret, _, ok := quoted(strings.TrimLeft(rest, " \t"))
	switch {
	case !ok:
		return "", s, fmt.Sprintf("no secret in double quotes for user %q", user)
	case len(secret) > maxPassword:
		return "", s, fmt.Sprintf("secret of user %q too long", user)
	case strings.ContainsRune(secret, 0):
		return "", s, fmt.Sprintf("zero byte in the secret of user %q", user)
	}
	if s, err := ParseSecret(secret); err == nil {
		return user, s, ""
	}
	return "", s, fmt.Sprintf("secret of user %q begins like a SCRAM verifier but is none", user)
}

// quoted reads a string in double quotes at the beginning of s.
func quoted(s string) (value, rest string, ok bool) {
	if !strings.HasPrefix(s, `"`) {
		return "", s, false
	}
	var b strings.Builder
	for s = s[1:]; ; {
		before, after, found := strings.Cut(s, `"`)
		b.WriteString(before)
		switch {
		case !found:
			return "", s, false
		case !strings.HasPrefix(after, `"`):
			return b.String(), after, true
		}
		b.WriteByte('"')
		s = after[1:]
	}
}

// ParseSecret tells the kinds of secrets apart, as Postgres and PgBouncer do. It
// fails for what begins like a SCRAM verifier and is none.
func ParseSecret(s string) (Secret, error) {
	switch {
	case scram.IsVerifier(s):
		v, err := scram.ParseVerifier(s)
		return Secret{SCRAM: v}, err
	case isMD5(s):
		return Secret{MD5: s}, nil
	}
	return Secret{Plain: s}, nil
}

// isMD5 reports whether s has the form of a stored md5 password.
func isMD5(s string) bool {
	return len(s) == 35 && strings.HasPrefix(s, "md5") && strings.Trim(s[3:], "0123456789abcdef") == ""
}
