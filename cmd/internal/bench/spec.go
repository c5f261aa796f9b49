package bench

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// ParseStream changes a stream by a text in the form of libpq's connection strings:
// "name=web share=25% query='3x SELECT 1'". A later key adds to the queries and replaces
// everything else. The keys are name, share, rate, clients, each, think, class, tenant
// (names divided by commas), tenants (a number of them), by_name, tell, deadline, trace,
// user, password, database, application_name, query, page, pause, go_on, work, protocol,
// patience, leave, retry, churn and read_rate.
func (s *Stream) ParseStream(text string) error {
	words, err := conninfo(text)
	if err != nil {
		return err
	}
	own := false // the first query replaces those from before
	for _, word := range words {
		key, value := word[0], word[1]
		if key == "query" && !own {
			s.Queries, own = nil, true
		}
		if err := s.set(key, value); err != nil {
			return err
		}
	}
	return nil
}

// set is one key of a stream.
func (s *Stream) set(key, value string) (err error) {
	switch key {
	case "name":
		s.Name = value
	case "class":
		s.Class = value
	case "user":
		s.User = value
	case "password":
		s.Password = value
	case "database":
		s.Database = value
	case "application_name":
		s.Application = value
	case "tenant":
		s.Tenants = strings.Split(value, ",")
	case "tenants":
		s.Tenants, err = manyTenants(value)
	case "share":
		s.Share, err = ParseShare(value)
	case "tell":
		s.Tell, err = ParseTell(value)
	case "protocol":
		s.Protocol, err = ParseProtocol(value)
	case "leave":
		s.Leave, err = ParseLeave(value)
	case "retry":
		s.Retry, err = ParseRetry(value)
	case "by_name", "deadline", "trace", "go_on":
		err = s.setBool(key, value)
	case "rate", "clients", "each", "churn", "read_rate", "page":
		err = s.setNumber(key, value)
	case "think", "patience", "pause":
		err = s.setTime(key, value)
	case "query", "work":
		err = s.setQuery(key, value)
	default:
		return fmt.Errorf("a stream has no %q", key)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return nil
}

func (s *Stream) setBool(key, value string) error {
	on, err := strconv.ParseBool(value)
	if err != nil {
		return fmt.Errorf("%q is neither true nor false", value)
	}
	switch key {
	case "by_name":
		s.NameTenants = on
	case "deadline":
		s.Deadline = on
	case "trace":
		s.Trace = on
	default:
		s.each(func(q *Query) { q.GoOn = on })
	}
	return nil
}

func (s *Stream) setNumber(key, value string) error {
	if key == "rate" {
		rate, err := strconv.ParseFloat(value, 64)
		s.Rate = rate
		return err
	}
	n, err := strconv.Atoi(value)
	switch key {
	case "clients":
		s.Clients = n
	case "each":
		s.Each = n
	case "churn":
		s.Churn = n
	case "read_rate":
		s.ReadRate = n
	default:
		s.each(func(q *Query) { q.Repeat = n })
	}
	return err
}

func (s *Stream) setTime(key, value string) error {
	d, err := time.ParseDuration(value)
	switch key {
	case "think":
		s.Think = d
	case "patience":
		s.Patience = d
	default:
		s.each(func(q *Query) { q.Pause = d })
	}
	return err
}

func (s *Stream) setQuery(key, value string) error {
	if key == "work" {
		w, err := ParseWork(value)
		s.each(func(q *Query) { q.Work = w })
		return err
	}
	q, err := ParseQuery(value)
	if len(s.Queries) > 0 { // what was said of the others counts for this one too
		old := s.Queries[0]
		q.Repeat, q.Pause, q.GoOn, q.Work = old.Repeat, old.Pause, old.GoOn, old.Work
	}
	s.Queries = append(s.Queries, q)
	return err
}

// each changes all queries of the stream. The slice is made anew: streams may share it.
func (s *Stream) each(change func(*Query)) {
	queries := make([]Query, len(s.Queries))
	for i, q := range s.Queries {
		change(&q)
		queries[i] = q
	}
	s.Queries = queries
}

// manyTenants are t1 to tN.
func manyTenants(text string) ([]string, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > 100_000 {
		return nil, fmt.Errorf("%q is no number of tenants from 1 to 100,000", text)
	}
	list := make([]string, n)
	for i := range list {
		list[i] = "t" + strconv.Itoa(i+1)
	}
	return list, nil
}

// conninfo splits key=value pairs. A value may be in single quotes; in it and outside a
// backslash takes the next character as it is.
func conninfo(text string) (words [][2]string, err error) {
	rest := strings.TrimSpace(text)
	for rest != "" {
		key, after, ok := strings.Cut(rest, "=")
		key = strings.TrimSpace(key)
		if !ok || key == "" || strings.ContainsAny(key, " '") {
			return nil, fmt.Errorf("%q: key=value pairs, values with spaces in single quotes", text)
		}
		value, left, err := unquote(after)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", text, err)
		}
		words = append(words, [2]string{key, value})
		rest = strings.TrimSpace(left)
	}
	return words, nil
}

// unquote takes one value off the front of a text.
func unquote(text string) (value, rest string, err error) {
	var b strings.Builder
	quoted := strings.HasPrefix(text, "'")
	if quoted {
		text = text[1:]
	}
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && i+1 < len(text):
			i++
			b.WriteByte(text[i])
		case quoted && c == '\'':
			return b.String(), text[i+1:], nil
		case !quoted && c == ' ':
			return b.String(), text[i+1:], nil
		default:
			b.WriteByte(c)
		}
	}
	if quoted {
		return "", "", errors.New("a quote is not closed")
	}
	return b.String(), "", nil
}
