import { h } from 'preact';
import { useState } from 'preact/hooks';
import type { FullKey } from '../keys/held-keys.ts';
import { LabelledInput, namedOptions, Select } from '../page/fields.ts';
import type { Composition } from './conversation.ts';
import type { TriedEndpoint } from './tried-endpoint.ts';
import type { Trial } from './use-trial.ts';

type Props = {
  trial: Trial;
  endpoint: TriedEndpoint;
  /** Of the endpoint. */
  name: string;
  /** The endpoints that can be chosen, with their labels. */
  options: Readonly<Record<string, string>>;
  /** The models that offer the endpoint. */
  offering: readonly string[];
  model: string;
  /** The key of the user, if it was created here. */
  known: FullKey | undefined;
};

/** Endpoint, models, parameters and the key of what is sent next. */
export function SettingsPane({ trial, endpoint, name, options, offering, model, known }: Props) {
  const { composition, change } = trial;
  const others = offering.filter((each) => each !== model);
  const compared = others.includes(composition.comparedModel) ? composition.comparedModel : '';
  return [
    h(Select<string>, {
      label: 'Endpoint',
      options: new Map(Object.entries(options)),
      value: name,
      change: trial.choose,
    }),
    h(Select<string>, {
      label: 'Model',
      options: namedOptions(offering),
      value: model,
      change: (chosen) => change({ model: chosen }),
    }),
    others.length > 0 &&
      h(Select<string>, {
        label: 'Compare with',
        options: new Map([['', 'no other model'], ...namedOptions(others)]),
        value: compared,
        change: (comparedModel) => change({ comparedModel }),
      }),
    endpoint.isGenerating && h(Parameters, { composition, usual: endpoint.maxTokensDefault, change }),
    h(KeySection, { trial, known }),
  ];
}

const parameters = {
  maxTokens: { label: 'Max output tokens', min: 1, max: undefined, step: 1 },
  temperature: { label: 'Temperature', min: 0, max: 2, step: 'any' },
  topP: { label: 'Top p', min: 0, max: 1, step: 'any' },
} as const;

type ParameterProps = {
  composition: Composition;
  /** The limit of output if none is given. */
  usual: number | undefined;
  change: (part: Partial<Composition>) => void;
};

/** What the model server decides unless it is set. */
function Parameters({ composition, usual, change }: ParameterProps) {
  return (Object.keys(parameters) as (keyof typeof parameters)[]).map((name) => {
    const { label, ...bounds } = parameters[name];
    const placeholder = name === 'maxTokens' ? (usual === undefined ? 'model limit' : String(usual)) : 'model default';
    return h(LabelledInput, {
      key: name,
      label,
      type: 'number',
      value: composition[name],
      change: (value) => change({ [name]: value }),
      input: { ...bounds, placeholder },
    });
  });
}

/** Nothing has to be pasted here: a key of the user is for trying what that key may do. */
function KeySection({ trial, known }: { trial: Trial; known: FullKey | undefined }) {
  const [isWanted, setWanted] = useState(trial.ownKey !== '');
  const use = (isOwn: boolean) => {
    setWanted(isOwn);
    if (!isOwn) trial.setOwnKey('');
  };
  if (!isWanted)
    return h(
      'div',
      null,
      h('p', { class: 'quiet' }, 'The page makes a key for itself, and revokes it when you leave.'),
      h('button', { type: 'button', onClick: () => use(true) }, 'Use another key'),
    );
  return h(
    'div',
    null,
    h(
      'label',
      null,
      'API key',
      h('input', {
        type: 'text',
        class: 'masked',
        pattern: ' *svc_[0-9A-Za-z]{38} *',
        title: 'svc_ and 38 letters and digits',
        autocapitalize: 'off',
        autocomplete: 'off',
        spellcheck: false,
        placeholder: 'svc_…',
        'aria-describedby': 'key-hint',
        value: trial.ownKey,
        onInput: ({ currentTarget }: { currentTarget: HTMLInputElement }) => trial.setOwnKey(currentTarget.value),
      }),
      h(
        'span',
        { class: 'quiet', id: 'key-hint' },
        known === undefined ? '' : `Your new key "${known.name}" is used. `,
        'Not stored: it is kept until you reload or close the console.',
      ),
    ),
    h('button', { type: 'button', onClick: () => use(false) }, 'Use no key of mine'),
  );
}
