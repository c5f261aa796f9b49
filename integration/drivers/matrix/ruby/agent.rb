# Ruby's pg, with a small pool. See ../doc.go.
require 'pg'

STDOUT.sync = true
OUT = { "\\" => '\\\\', "\t" => '\t', "\n" => '\n', "\r" => '\r' }.freeze
BACK = { "\\" => "\\", 't' => "\t", 'n' => "\n", 'r' => "\r" }.freeze

def encode(value)
  value.nil? ? '\N' : value.to_s.then { |s| s.encoding == Encoding::BINARY ? s : s.encode('UTF-8') }.gsub(/[\\\t\n\r]/, OUT)
end

def decode(text)
  text == '\N' ? nil : text.gsub(/\\(.)/) { BACK[$1] }
end

def options(args)
  args.to_h { |arg| arg.split('=', 2) }
end

# Agent has a method for each verb, which returns lines.
class Agent
  def initialize
    @conns, @alone, @idle = {}, {}, Queue.new
  end

  def dial(o)
    dsn = { host: o['host'], port: o['port'], user: o['user'], password: o['password'], dbname: o['database'], sslmode: 'disable' }
    dsn[:options] = "-c TimeZone=#{o['tz']}" if o['tz']
    dsn[:client_encoding] = o['enc'] if o['enc']
    PG.connect(dsn)
  end

  def result(r)
    r.values.map { |row| ['row', *row] } + [['end', r.cmd_status]]
  end

  def failed(e)
    r = e.respond_to?(:result) ? e.result : nil
    code = r && r.error_field(PG::PG_DIAG_SQLSTATE)
    # Of a large object there is a message only.
    return ['error', e.message =~ /large object \d+ does not exist/ ? '42704' : '', e.message, '', ''] unless code

    ['error', code, r.error_field(PG::PG_DIAG_MESSAGE_PRIMARY), r.error_field(PG::PG_DIAG_MESSAGE_DETAIL).to_s,
     r.error_field(PG::PG_DIAG_MESSAGE_HINT).to_s]
  end

  def do_pool(_, *args)
    @idle.pop.close until @idle.empty?
    @pool = options(args)
    []
  end

  def do_connect(n, *args)
    @conns[n] = dial(options(args))
    @alone[n] = true
    []
  end

  def do_open(n)
    @conns[n] = begin
      @idle.pop(true)
    rescue ThreadError
      dial(@pool)
    end
    []
  end

  def do_close(n)
    conn = @conns.delete(n)
    if @alone.delete(n) || conn.status != PG::CONNECTION_OK || conn.transaction_status != PG::PQTRANS_IDLE
      conn.close
    else
      @idle << conn
    end
    []
  end

  def do_query(n, sql, *args)
    result(@conns[n].exec_params(sql, args))
  end

  def do_exec(n, sql)
    conn = @conns[n]
    conn.send_query(sql)
    lines = []
    while (r = conn.get_result)
      begin
        r.check
        lines += result(r)
      rescue PG::Error => e
        lines << failed(e)
      end
    end
    lines
  end

  def do_begin(n, level = nil)
    @conns[n].exec(level ? "begin isolation level #{level}" : 'begin')
    []
  end

  def do_commit(n)
    @conns[n].exec('commit')
    []
  end

  def do_rollback(n)
    @conns[n].exec('rollback')
    []
  end

  def do_prepare(n, name, sql)
    @conns[n].prepare(name, sql)
    []
  end

  def do_run(n, name, *args)
    result(@conns[n].exec_prepared(name, args))
  end

  def do_copyin(n, sql, text)
    conn = @conns[n]
    r = conn.copy_data(sql) { conn.put_copy_data(text) }
    [['end', r.cmd_status]]
  end

  def do_copyout(n, sql)
    conn = @conns[n]
    rows = []
    conn.copy_data(sql) do
      while (row = conn.get_copy_data)
        rows << ['row', row.chomp]
      end
    end
    rows
  end

  def do_lowrite(n, text)
    conn = @conns[n]
    oid = conn.lo_create(0)
    fd = conn.lo_open(oid, PG::INV_WRITE)
    conn.lo_write(fd, text)
    conn.lo_close(fd)
    [['row', oid]]
  end

  def do_loread(n, oid)
    conn = @conns[n]
    fd = conn.lo_open(oid.to_i, PG::INV_READ)
    text = conn.lo_read(fd, 1 << 20)
    conn.lo_close(fd)
    [['row', text]]
  end

  # Statements of one pipeline, one Sync.
  def do_pipeline(n, *statements)
    conn = @conns[n]
    conn.enter_pipeline_mode
    statements.each { |sql| conn.send_query_params(sql, []) }
    conn.pipeline_sync
    lines = []
    loop do
      r = conn.get_result or next
      break if r.result_status == PG::PGRES_PIPELINE_SYNC

      lines += pipelined(r)
    end
    lines
  ensure
    conn.exit_pipeline_mode
  end

  def pipelined(r)
    return [['row', 'skipped']] if r.result_status == PG::PGRES_PIPELINE_ABORTED

    r.check
    result(r)
  rescue PG::Error => e
    [failed(e)]
  end

  def do_long(n, sql)
    do_query(n, sql)
  end

  def do_cancel(_, target)
    @conns[target.to_i].cancel
    []
  end

  def do_notices(n, sql)
    notices = []
    @conns[n].set_notice_processor { |text| notices << ['notice', text.lines.first.chomp] }
    do_exec(n, sql) + notices
  ensure
    @conns[n].set_notice_processor
  end

  def do_types(n)
    conn = @conns[n]
    all = { value: (0..255).map(&:chr).join.b, format: 1 }
    values = [nil, 't', '-2147483648', '9223372036854775807', '1.5', '12345678901234567890.123456789', "é\t'\\", '', all,
              '2024-02-29 12:34:56.789012+00', '0001-01-01', '{1,NULL,3}', '{"a": [1, null]}', '00000000-0000-0000-0000-000000000005']
    sql = 'select $1::int, $2::bool, $3::int, $4::bigint, $5::float8, $6::numeric, $7::text, $8::text, $9::bytea, ' \
          '$10::timestamptz, $11::date, $12::int[], $13::jsonb, $14::uuid'
    lines = result(conn.exec_params(sql, values)) # text
    binary = conn.exec_params(sql, values, 1)
    lines + [['row', *binary.values[0].map { |v| v && v.unpack1('H*') }]]
  end

  def do_ping(n)
    conn = @conns[n]
    conn.exec(';') # as ActiveRecord does
    do_query(n, 'select 1')
  end

  def carry_out(n, verb, args)
    return [['no']] unless respond_to?("do_#{verb}")

    send("do_#{verb}", n, *args)
  rescue StandardError => e
    cause = e # of what ActiveRecord makes of it
    cause = cause.cause until cause.nil? || cause.is_a?(PG::Error)
    cause ? [failed(cause)] : [['error', '', e.full_message(highlight: false), '', '']]
  end
end

# serve has an agent carry out commands, those of each connection in a thread.
def serve(agent)
  workers, lock = {}, Mutex.new
  STDIN.each_line do |line|
    n, *command = line.chomp.split("\t", -1)
    n = n.to_i
    workers[n] ||= Queue.new.tap do |commands|
      Thread.new do
        loop do
          verb, *args = commands.pop
          lines = agent.carry_out(n, verb, args) + [['done']]
          text = lines.map { |fields| [n, *fields.map { |f| encode(f) }].join("\t") + "\n" }.join
          lock.synchronize { STDOUT.write(text) }
        end
      end
    end
    workers[n] << command.map { |field| decode(field) }
  end
end

serve(Agent.new) if __FILE__ == $PROGRAM_NAME
