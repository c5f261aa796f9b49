package console

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/pgweir/pgweir/wire"
)

// failure is an error that the administrator is told. The session goes on.
type failure struct {
	code, message, detail, hint string

	offset int // byte of the query, plus one; 0 = no place
	place  int // the same in characters, once known
}

// Error returns the text.
func (f *failure) Error() string { return f.message }

// fail returns a failure.
func fail(code, format string, args ...any) *failure {
	return &failure{code: code, message: fmt.Sprintf(format, args...)}
}

// because adds a hint.
func (f *failure) because(hint string) *failure {
	f.hint = hint
	return f
}

// syntax is a failure at a byte of the query.
func syntax(offset int, format string, args ...any) *failure {
	f := fail(wire.CodeSyntaxError, format, args...)
	f.offset = offset + 1
	return f
}

// at finds the character that a failure points to, for psql's caret.
func at(query string, err error) error {
	if f, ok := errors.AsType[*failure](err); ok && f.offset > 0 && f.offset <= len(query)+1 {
		f.place = 1 + utf8.RuneCountInString(query[:f.offset-1])
	}
	return err
}

// response turns an error into what is sent.
func response(err error) *pgproto3.ErrorResponse {
	f, ok := errors.AsType[*failure](err)
	if !ok {
		f = fail(wire.CodeInternalError, "%s", err)
	}
	return &pgproto3.ErrorResponse{
		Severity: wire.SeverityError, SeverityUnlocalized: wire.SeverityError,
		Code: f.code, Message: clean(f.message), Detail: clean(f.detail), Hint: clean(f.hint),
		Position: int32(f.place),
	}
}

// fatal is the last word of a session.
func fatal(code, message string) *pgproto3.ErrorResponse {
	return &pgproto3.ErrorResponse{
		Severity: wire.SeverityFatal, SeverityUnlocalized: wire.SeverityFatal,
		Code: code, Message: message,
	}
}
