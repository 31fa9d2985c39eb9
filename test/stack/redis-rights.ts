/** The commands that the Redis user of the service must be allowed to use, by what they are for. */
export const redisRights = {
  connections: ['ping', 'info', 'multi', 'exec'],
  scripts: ['eval', 'evalsha', 'time'],
  strings: ['get', 'mget', 'getex', 'set', 'incr'],
  keys: ['del', 'exists', 'pexpire', 'pttl'],
  hashes: ['hdel', 'hexists', 'hget', 'hgetall', 'hincrby', 'hkeys', 'hlen', 'hmget', 'hmset', 'hset', 'hsetnx'],
  'sorted sets': [
    ...['bzpopmin', 'zadd', 'zcard', 'zcount', 'zpopmin', 'zrange', 'zrangebyscore', 'zrem', 'zremrangebyscore'],
    ...['zrevrange', 'zscore'],
  ],
  streams: ['xadd', 'xlen', 'xrange', 'xread', 'xtrim'],
  'lists and sets of the queues': [
    'llen',
    'lpush',
    'lrange',
    'lrem',
    'rpoplpush',
    'rpush',
    'sadd',
    'scard',
    'smembers',
    'srem',
  ],
  'branches of the queue library, and changes by the queue dashboard': [
    ...['lindex', 'lpop', 'lpos', 'lset', 'ltrim', 'persist', 'rename', 'rpop', 'type', 'zremrangebyrank'],
    'zrevrangebyscore',
  ],
  'npm run reconcile': ['scan'],
} as const;

export const allRights: readonly string[] = Object.values(redisRights).flat();

/** Those that `REPLY_REDIS_URL` needs, if it is another Redis. */
export const replyRights = [
  ...['ping', 'info', 'multi', 'exec', 'eval', 'evalsha', 'del', 'exists', 'pexpire', 'xadd', 'xread', 'xtrim'],
] as const;

/** In addition, in a cluster. */
export const clusterRights = ['cluster|info', 'cluster|slots', 'client|setname', 'asking'] as const;

/** What the user of sentinels needs there. */
export const sentinelRights = ['sentinel|get-master-addr-by-name', 'sentinel|sentinels'] as const;

export const serviceUser = 'service';

/** The user of the service as a setting of Redis: exactly these commands, on its keys. */
export function userSetting(commands: readonly string[], password: string): string {
  const allowed = commands.map((command) => `+${command}`);
  return [serviceUser, 'on', `>${password}`, '~svc:*', 'resetchannels', '-@all', ...allowed].join(' ');
}
