#!lua flags=allow-oom
-- Appends one entry to a reply stream, also when Redis is out of memory: the stream is bounded, and an answer that cannot be
-- told would keep its client until the deadline.
-- KEYS[1]   the reply stream
-- ARGV[1]   about how many entries the stream may hold
-- ARGV[2…]  the entry's fields and values in turn
-- returns   the entry's id, or nil when the stream is gone
return redis.call('XADD', KEYS[1], 'NOMKSTREAM', 'MAXLEN', '~', ARGV[1], '*', unpack(ARGV, 2))
