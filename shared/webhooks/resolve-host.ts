import { lookup, Resolver } from 'node:dns/promises';
import type { AddressRules } from './webhook-address.ts';

const attemptMs = 2_000;
const answerMsMax = 5_000;

/**
 * Asks the name servers directly. `lookup` would wait in one of the four threads that all of the process shares, as long as the name server
 * of an endpoint does not answer. It is used only for hosts that an operator has listed, which may be in the hosts file. `servers`: others
 * than those of the system.
 */
export function createResolveHost({
  servers,
  resolveMsMax = answerMsMax,
}: {
  servers?: readonly string[];
  resolveMsMax?: number;
} = {}): AddressRules['resolve'] {
  return async function resolveHost(host, { isPrivate }) {
    if (isPrivate) return (await lookup(host, { all: true })).map(({ address }) => address);
    const resolver = new Resolver({ timeout: attemptMs, tries: 2 });
    if (servers !== undefined) resolver.setServers(servers);
    const late = setTimeout(() => resolver.cancel(), resolveMsMax);
    try {
      const answers = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)]);
      return answers.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []));
    } finally {
      clearTimeout(late);
    }
  };
}
