import type { Attack } from './attack.ts';
import { anonymousBodies } from './bodies/anonymous-bodies.ts';
import { anonymousNesting } from './bodies/anonymous-nesting.ts';
import { longNumbers } from './bodies/long-numbers.ts';
import { nestingWithKey } from './bodies/nesting-with-key.ts';
import { tricklingBodies } from './bodies/trickling-bodies.ts';
import { tricklingBodiesWithKey } from './bodies/trickling-bodies-with-key.ts';
import { unknownFields } from './bodies/unknown-fields.ts';
import { fullQueue } from './connections/full-queue.ts';
import { idleConnections } from './connections/idle-connections.ts';
import { pipelinedRequests } from './connections/pipelined-requests.ts';
import { tricklingHeads } from './connections/trickling-heads.ts';
import { unreadAnswers } from './connections/unread-answers.ts';
import { unreadStreams } from './connections/unread-streams.ts';
import { forgedTokens } from './credentials/forged-tokens.ts';
import { guessedDevices } from './credentials/guessed-devices.ts';
import { madeUpKeys } from './credentials/made-up-keys.ts';
import { newDevices } from './credentials/new-devices.ts';
import { deepLines } from './files/deep-lines.ts';
import { hostileBatches } from './files/hostile-batches.ts';
import { tricklingUploads } from './files/trickling-uploads.ts';
import { holdFree, holdGuests, holdPro, holdTogether } from './hold/hold.ts';

/** In the order in which they run. */
export const allAttacks: readonly Attack[] = [
  anonymousBodies,
  anonymousNesting,
  nestingWithKey,
  unknownFields,
  longNumbers,
  deepLines,
  hostileBatches,
  tricklingBodies,
  tricklingBodiesWithKey,
  guessedDevices,
  newDevices,
  madeUpKeys,
  tricklingUploads,
  pipelinedRequests,
  idleConnections,
  tricklingHeads,
  unreadAnswers,
  unreadStreams,
  forgedTokens,
  fullQueue,
  holdFree,
  holdPro,
  holdGuests,
  holdTogether,
];

/** Finds an attack by its id. Throws if there is none. */
export function findAttack(id: string): Attack {
  const found = allAttacks.find((attack) => attack.id === id);
  if (found === undefined) throw new Error(`there is no attack ${id}`);
  return found;
}
