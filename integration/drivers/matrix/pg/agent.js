// node-postgres with its pool, and pg-copy-streams.
'use strict'
const { Pool, Client } = require('pg')
const { pipeline } = require('stream/promises')
const { Readable, Writable } = require('stream')
const frame = require('../node/frame.js')

let copies = null
try {
  copies = require('pg-copy-streams')
} catch (e) { /* it has no COPY then */ }

const conns = {}
const prepared = {}
const alone = new Set()
let pool = null

const dsn = (o) => ({
  host: o.host, port: Number(o.port), user: o.user, password: o.password, database: o.database,
  ...(o.tz ? { options: '-c TimeZone=' + o.tz } : {}),
})
const lines = (r) => [].concat(r).flatMap((one) => [
  ...one.rows.map((row) => ['row', ...row]), ['end', one.command + (one.rowCount === null ? '' : ' ' + one.rowCount)]])
const query = async (n, text, values, name) => lines(await conns[n].query({ text, values, name, rowMode: 'array' }))
const say = (n, text) => query(n, text)

frame.main({
  async pool(n, ...args) {
    if (pool) pool.end().catch(() => {})
    const o = frame.options(args)
    pool = new Pool({ ...dsn(o), max: Number(o.size), idleTimeoutMillis: 0 })
    pool.on('error', () => {}) // of idle connections: the pool throws them away
  },
  async connect(n, ...args) {
    const o = frame.options(args)
    if (o.enc) return [['no']] // it speaks UTF8 only
    conns[n] = new Client(dsn(o))
    await conns[n].connect()
    alone.add(n)
  },
  async open(n) {
    const c = await pool.connect()
    c.broken = null
    c.watch = (e) => { c.broken = e }
    c.on('error', c.watch)
    conns[n] = c
  },
  async close(n) {
    const c = conns[n]
    if (!c) return
    delete conns[n]
    if (alone.delete(n)) return c.end()
    c.removeListener('error', c.watch)
    c.release(c.broken || undefined)
  },
  query: (n, sql, ...args) => query(n, sql, args),
  exec: say,
  async prepare(n, name, sql) { prepared[name] = sql },
  run: (n, name, ...args) => query(n, prepared[name], args, name),
  begin: (n, level) => say(n, level ? 'begin isolation level ' + level : 'begin'),
  commit: (n) => say(n, 'commit'),
  rollback: (n) => say(n, 'rollback'),
  async copyin(n, sql, text) {
    if (!copies) return [['no']]
    const stream = conns[n].query(copies.from(sql))
    await pipeline(Readable.from([text]), stream)
    return [['end', 'COPY ' + stream.rowCount]]
  },
  async copyout(n, sql) {
    if (!copies) return [['no']]
    let text = ''
    const stream = conns[n].query(copies.to(sql))
    await pipeline(stream, new Writable({ write(chunk, _, next) { text += chunk; next() } }))
    return [...text.split('\n').slice(0, -1).map((line) => ['row', line]), ['end', 'COPY ' + stream.rowCount]]
  },
  long: (n, sql) => query(n, sql),
  async cancel(n, target) {
    const c = conns[target]
    const canceller = new Client({ host: c.host, port: c.port })
    canceller.cancel(c, c.activeQuery || c._activeQuery)
    // PostgreSQL sends two signals, and closes this connection behind the second.
    await new Promise((resolve) => canceller.connection.once('end', resolve))
  },
  async notices(n, sql) {
    const seen = []
    const see = (m) => seen.push(['notice', `${m.severity}:  ${m.message}`])
    conns[n].on('notice', see)
    try {
      return [...await say(n, sql), ...seen]
    } finally {
      conns[n].removeListener('notice', see)
    }
  },
  async types(n) {
    const all = Buffer.from(Array.from({ length: 256 }, (_, i) => i))
    const values = [null, true, -(2 ** 31), '9223372036854775807', 1.5, '12345678901234567890.123456789', "é\t'\\", '', all,
      new Date(Date.UTC(2024, 1, 29, 12, 34, 56, 789)), '0001-01-01', [1, null, 3], { a: [1, null] }, '00000000-0000-0000-0000-000000000005']
    const text = 'select $1::int, $2::bool, $3::int, $4::bigint, $5::float8, $6::numeric, $7::text, $8::text, $9::bytea, ' +
      '$10::timestamptz, $11::date, $12::int[], $13::jsonb, $14::uuid'
    const r = await conns[n].query({ text, values, rowMode: 'array' })
    return [['row', ...r.rows[0].map((v) => v === null ? null : Buffer.isBuffer(v) ? v.toString('hex') : JSON.stringify(v))]]
  },
  ping: (n) => query(n, 'select 1'),
})
