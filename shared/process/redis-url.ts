/** One or more Redis servers, and how to log in. `single` keeps its URL, which the client library reads. */
export type RedisAddress =
  | { kind: 'single'; url: string }
  | ({ kind: 'cluster' } & Servers)
  | ({ kind: 'sentinel'; master: string; database: number } & Servers & SentinelLogin);

type Servers = {
  servers: readonly { host: string; port: number }[];
  tls: boolean;
  username?: string;
  password?: string;
};
type SentinelLogin = { sentinelUsername?: string; sentinelPassword?: string };

/** The forms of a Redis URL, for messages. */
export const redisUrlForms =
  'redis://host:port, redis+cluster://host1:port,host2:port or redis+sentinel://host1:port,host2:port/name; rediss… for TLS';

const singleUrl = /^rediss?:\/\//;
const manyUrl = /^redis(s?)\+(cluster|sentinel):\/\/(?:([^@/?#]*)@)?([^@/?#]+)(\/[^?#]*)?(?:\?([^#]*))?$/;
const server = /^(?:\[([\da-f:.]+)\]|([\w.-]+))(?::(\d{1,5}))?$/i;
const defaultPorts = { cluster: 6_379, sentinel: 26_379 };

/**
 * Reads a Redis URL. User and password are percent-encoded and are those of Redis; sentinels have their own, in the parameters
 * `sentinel_username` and `sentinel_password`. The path of a Sentinel URL is the name of the master, and optionally the number of a
 * database. Returns undefined for any other text. The text can hold a password: it is not part of an error.
 */
export function parseRedisUrl(text: string): RedisAddress | undefined {
  if (singleUrl.test(text)) return isSingle(text) ? { kind: 'single', url: text } : undefined;
  const match = manyUrl.exec(text);
  if (match === null) return undefined;
  const [, secure = '', kind = '', login = '', hosts = '', path = '', query = ''] = match;
  const port = kind === 'cluster' ? defaultPorts.cluster : defaultPorts.sentinel;
  const servers = hosts.split(',').map((host) => parseServer(host, port));
  const given = parseLogin(login);
  if (given === undefined || !servers.every((parsed) => parsed !== undefined)) return undefined;
  const common = { servers, tls: secure !== '', ...given };
  if (kind === 'cluster') return path.length <= 1 && query === '' ? { kind, ...common } : undefined;
  return withMaster(common, path, query);
}

/** The path is empty or the number of a database. */
function isSingle(text: string): boolean {
  return /^(\/\d{0,5})?$/.test(URL.parse(text)?.pathname ?? 'not a URL');
}

function parseServer(text: string, defaultPort: number): { host: string; port: number } | undefined {
  const [, address, name, port] = server.exec(text) ?? [];
  const host = address ?? name;
  const number = port === undefined ? defaultPort : Number(port);
  return host === undefined || number === 0 || number > 65_535 ? undefined : { host, port: number };
}

function parseLogin(text: string): { username?: string; password?: string } | undefined {
  if (text === '') return {};
  const colon = text.indexOf(':');
  if (colon === -1) return undefined; // a user without a password cannot log in
  const [username, password] = [decoded(text.slice(0, colon)), decoded(text.slice(colon + 1))];
  if (username === undefined || !password) return undefined;
  return { ...(username !== '' && { username }), password };
}

function withMaster(common: Servers, path: string, query: string): RedisAddress | undefined {
  const [, name = '', number = '0'] = /^\/([^/]+)(?:\/(\d{1,5}))?$/.exec(path) ?? [];
  const master = decoded(name);
  const parameters = new URLSearchParams(query);
  if (!master || [...parameters.keys()].some((key) => !/^sentinel_(username|password)$/.test(key))) return undefined;
  const [sentinelUsername, sentinelPassword] = [
    parameters.get('sentinel_username'),
    parameters.get('sentinel_password'),
  ];
  return {
    kind: 'sentinel',
    ...common,
    master,
    database: Number(number),
    ...(sentinelUsername && { sentinelUsername }),
    ...(sentinelPassword && { sentinelPassword }),
  };
}

function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}
