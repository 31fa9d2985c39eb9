import type { Attack, Tally } from '../attack.ts';
import { openAgent } from '../attacker/open-agent.ts';
import { repeat } from '../attacker/repeat.ts';

const callsPerMinute = 60;

/** The attack may touch two minutes. */
export const guessesMax = 2 * callsPerMinute;

function gains(tally: Tally): string[] {
  const lookedUp = Object.entries(tally).reduce((sum, [what, times]) => sum + (isLookedUp(what) ? times : 0), 0);
  return lookedUp > guessesMax ? [`${lookedUp} guesses looked up, more than ${guessesMax}`] : [];
}

const isLookedUp = (what: string) => what === '200' || what === '429 guest_mints';

export const guessedDevices: Attack = {
  id: '6a',
  name: 'guessed-devices',
  does: 'guest keys of guessed device ids on 20 connections; at most 600 a second',
  gains,
  async run(attacker) {
    const send = openAgent(attacker);
    await repeat(attacker, { clients: 20, perSecond: 600 }, (_, index) =>
      send({ path: '/v1/keys/guest', body: { device_id: `device-${index}` } }),
    );
  },
};
