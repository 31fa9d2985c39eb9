import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';
import type Koa from 'koa';
import { ApiError } from '../errors.ts';

type Names = {
  /** What the listener binds to. */
  host: string;
  /** Further names, and addresses, under which it is reached. */
  hostsAllowed: readonly string[];
};

/**
 * A browser carries requests of any page that is open in it. A page whose own name resolves to the listener's address (DNS rebinding)
 * could read what it answers as its own. So a name has to be `localhost`, the one that the listener binds to, or an allowed one.
 * Addresses cannot be rebound, and probes and Prometheus use those of a pod; a listener on loopback takes those of loopback only.
 * A request without `Host` is not from a browser. Fails with `FORBIDDEN`.
 */
export function refuseForeignHosts({ host, hostsAllowed }: Names): Koa.Middleware {
  const onLoopback = isLoopback(host);
  const known = new Set(['localhost', host, ...hostsAllowed].map((name) => name.toLowerCase()));

  function isOwn(name: string): boolean {
    if (name === '' || known.has(name)) return true;
    return isIP(name) !== 0 && (!onLoopback || isLoopback(name));
  }

  return function refuseForeignHosts(ctx, next) {
    if (!isOwn(bareName(ctx))) {
      throw new ApiError('FORBIDDEN', 'This is not answered under this name. OPS_HOSTS_ALLOWED can allow it.');
    }
    return next();
  };
}

/** Without its port, brackets and the dot at its end; a header that cannot be read is left as it is, and no name. */
function bareName(ctx: Koa.Context): string {
  const given = ctx.get('host').toLowerCase();
  const [, bracketed, name] = /^(?:\[([^\]]*)\]|([^:]*))(?::\d*)?$/.exec(given) ?? [];
  return (bracketed ?? name ?? given).replace(/\.$/, '');
}

function isLoopback(host: string): boolean {
  return host === 'localhost' || (isIP(host) !== 0 && ipaddr.process(host).range() === 'loopback');
}
