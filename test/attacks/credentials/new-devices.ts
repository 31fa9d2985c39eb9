import type { Attack } from '../attack.ts';
import { openAgent } from '../attacker/open-agent.ts';
import { repeat } from '../attacker/repeat.ts';

const mintsPerHour = 5;
/** Of a /48, sixteen times that of an address. */
const mintsMax = 16 * mintsPerHour;
const devicesOfNetwork = 65_536;

export const newDevices: Attack = {
  id: '6b',
  name: 'new-devices',
  does: 'guest keys of new devices, each from another /64 of one IPv6 /48 behind a proxy, on 20 connections; at most 100 a second',
  stack: { env: { TRUST_PROXY: '1' }, guests: { guest_mints_per_hour: mintsPerHour } },
  gains({ 200: minted = 0 }) {
    return minted > mintsMax ? [`${minted} guest keys, more than ${mintsMax}`] : [];
  },
  async run(attacker) {
    const send = openAgent(attacker);
    await repeat(attacker, { clients: 20, perSecond: 100 }, (_, index) => {
      // Spread over all /56 networks of the /48.
      const network = (index * 257) % devicesOfNetwork;
      return send({
        path: '/v1/keys/guest',
        headers: { 'x-forwarded-for': `2001:db8:9:${network.toString(16)}::1` },
        body: { device_id: `device-${index}` },
      });
    });
  },
};
