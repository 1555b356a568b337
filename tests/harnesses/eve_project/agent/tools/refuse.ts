import { defineTool } from "eve/tools";
import { refuses } from "../lib/shop";

export default defineTool(refuses("Fail with a reason that the model should read."));
