// Package sqltext reads the text of a statement as far as a pooler must: where
// its statements begin and end, whether it only reads, whether it leaves
// something behind in the server session, and what its shape is.
//
// It is a lexer with a handful of small grammars, not a parser. Its promises:
//
//   - Total and linear: any bytes give an answer, in time proportional to the
//     length, without allocating (Name and Value may allocate).
//   - Conservative: whatever is not understood is Other, and a flag that guards
//     other sessions is set rather than missed. What functions and procedures do
//     inside the server is invisible here; only DO blocks are looked into,
//     word by word.
//   - The quoting rules are Postgres's: nested comments, dollar quotes, the E and
//     U& forms, continuation lines. Where standard_conforming_strings = off or
//     a client encoding whose characters may end in a backslash (SJIS, BIG5, GBK,
//     GB18030) would read the text differently, every reading is tried and the
//     answers are merged.
//
// It refuses to know sessions, servers and policies, and imports nothing of ours.
package sqltext
