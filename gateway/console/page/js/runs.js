/** Trajectories as people paste them: the JSON of the contract, alone or within what Learn takes. */

/** The trajectory in a text. Throws an Error that says what is missing. */
export function trajectoryFrom(text, dataset) {
  const value = read(text);
  const given = value.trajectory ?? value;
  if (!given.query) throw new Error('A trajectory needs a "query": what the agent was asked.');
  return { ...given, dataset };
}

function read(text) {
  let value;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new Error(`This is not JSON: ${error.message}`);
  }
  if (value && typeof value === "object" && !Array.isArray(value)) return value;
  throw new Error("A trajectory is a JSON object.");
}

export const EXAMPLE = {
  query: "Commit the fix",
  status: "TRAJECTORY_STATUS_FAILURE",
  generated_answer: "I could not commit.",
  steps: [
    {
      role: "STEP_ROLE_ASSISTANT",
      tool_calls: [{ id: "1", name: "git", arguments: '{"args": ["commit", "-m", "fix"]}' }],
    },
    {
      role: "STEP_ROLE_TOOL",
      name: "git",
      tool_call_id: "1",
      content: "exit code 128\nfatal: unable to auto-detect email address",
    },
    {
      role: "STEP_ROLE_ASSISTANT",
      tool_calls: [{ id: "2", name: "git", arguments: '{"args": ["config", "user.email", "agent@example.com"]}' }],
    },
    { role: "STEP_ROLE_TOOL", name: "git", tool_call_id: "2", content: "" },
  ],
};
