import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';
import type Koa from 'koa';
import { ApiError } from '../errors.ts';

type Names = {
  /** The address that the listener binds to. */
  host: string;
  /** Further names and addresses under which it is reached. */
  hostsAllowed: readonly string[];
};

/**
 * Refuses requests with a foreign `Host`. A browser sends requests for every page that is open in it. A page whose own name resolves to the
 * listener's address (DNS rebinding) could read the responses as its own. So a name must be `localhost`, the name that the listener binds
 * to, or an allowed one. Addresses cannot be rebound, and probes and Prometheus use the address of a pod; a listener on loopback accepts
 * only loopback addresses. A request without `Host` is not from a browser. Fails with `FORBIDDEN` (contract.md#a2-operations-listener).
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
      throw new ApiError(
        'FORBIDDEN',
        'This host name is not allowed. The operator can allow it with OPS_HOSTS_ALLOWED.',
      );
    }
    return next();
  };
}

/**
 * Returns the host without its port, brackets and trailing dot. A header that cannot be parsed is returned unchanged, and matches no name.
 */
function bareName(ctx: Koa.Context): string {
  const given = ctx.get('host').toLowerCase();
  const [, bracketed, name] = /^(?:\[([^\]]*)\]|([^:]*))(?::\d*)?$/.exec(given) ?? [];
  return (bracketed ?? name ?? given).replace(/\.$/, '');
}

function isLoopback(host: string): boolean {
  return host === 'localhost' || (isIP(host) !== 0 && ipaddr.process(host).range() === 'loopback');
}
