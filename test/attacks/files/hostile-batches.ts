import { z } from 'zod';
import { contentType, file, multipart, purpose } from '../../support/multipart.ts';
import type { Attack } from '../attack.ts';
import { repeat } from '../attacker/repeat.ts';
import { post, sendBytes } from '../attacker/send-bytes.ts';
import {
  allowedArrays,
  allowedMembers,
  chatBody,
  chatWithMembers,
  deepArrays,
  lineFieldBytes,
  longNumberAmong,
  longNumberAmongFew,
  wideArrays,
} from '../hostile-json.ts';

/** The rest of a line, outside its body. */
const bytes = lineFieldBytes - 300;
const bodies = [
  chatBody(allowedArrays(bytes)),
  chatWithMembers(allowedMembers(bytes)),
  chatBody(longNumberAmongFew(bytes)),
  chatBody(longNumberAmong(bytes)),
  chatBody(deepArrays(bytes)),
  chatBody(wideArrays(bytes)),
];
const lines = bodies.map(
  (body, index) => `{"custom_id":"a${index}","method":"POST","url":"/v1/chat/completions","body":${body}}`,
);
const form = multipart([purpose, file(lines.join('\n'))]);
const fileSchema = z.object({ id: z.string() });

export const hostileBatches: Attack = {
  id: '4b',
  name: 'hostile-batches',
  does: 'batches whose 6 lines of 4 MiB are nested, have many fields or long numbers, with a key, by two clients; at most one a second',
  accounts: 1,
  plan: 'pro',
  forMs: 20_000,
  run: (attacker) =>
    repeat(attacker, { clients: 2, perSecond: 1 }, async () => {
      const [key] = attacker.target.keys;
      const type = contentType().replace('Content-Type: ', '');
      const uploaded = await sendBytes(attacker, post({ path: '/v1/files', key, contentType: type, body: form }));
      const { id } = fileSchema.parse(JSON.parse(uploaded));
      const batch = { input_file_id: id, endpoint: '/v1/chat/completions', completion_window: '24h' };
      await sendBytes(attacker, post({ path: '/v1/batches', key, body: JSON.stringify(batch) }));
    }),
};
