import { backendStreams } from './backend-streams.ts';
import { endpointBodies } from './endpoint-bodies.ts';
import { forms } from './forms.ts';
import { jsonBodies } from './json-bodies.ts';
import { keyStrings } from './key-strings.ts';
import { namedEvents } from './named-events.ts';
import { planFiles } from './plan-files.ts';
import type { FuzzTargets } from './search/fuzz-target.ts';
import { tokens } from './tokens.ts';

export const targets: FuzzTargets = {
  'json-bodies': jsonBodies,
  'endpoint-bodies': endpointBodies,
  forms,
  'key-strings': keyStrings,
  tokens,
  'backend-streams': backendStreams,
  'named-events': namedEvents,
  'plan-files': planFiles,
};
