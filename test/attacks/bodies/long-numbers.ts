import type { Attack } from '../attack.ts';
import { repeat } from '../attacker/repeat.ts';
import { post, sendBytes } from '../attacker/send-bytes.ts';
import { chatBody, fieldBytes, longNumberAmong, longNumberAmongFew } from '../hostile-json.ts';

const bodies = [longNumberAmong(fieldBytes), longNumberAmongFew(fieldBytes)].map(chatBody);

export const longNumbers: Attack = {
  id: '3c',
  name: 'long-numbers',
  does: 'chat requests of 16 MiB with a long number among many values, with a key, by two clients; at most 100 MiB a second',
  accounts: 1,
  run: (attacker) =>
    repeat(attacker, { clients: 2, perSecond: 6 }, (_, index) =>
      sendBytes(
        attacker,
        post({ path: '/v1/chat/completions', key: attacker.target.keys[0], body: bodies[index % bodies.length] ?? '' }),
      ),
    ),
};
